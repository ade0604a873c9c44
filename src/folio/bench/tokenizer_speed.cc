#include "folio/bench/tokenizer_speed.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "folio/base/check.h"
#include "folio/base/clock.h"
#include "folio/base/math.h"
#include "folio/base/thread_pool.h"
#include "folio/io/file.h"
#include "folio/text/bpe_trainer.h"
#include "folio/text/encode_parallel.h"
#include "folio/text/encodings.h"
#include "folio/text/tokenizer.h"

namespace folio {
namespace {

constexpr uint64_t kSeed = 1;
constexpr size_t kSmallCall = 1'000;
constexpr size_t kLargeCall = 1'000'000;
constexpr size_t kSmallCalls = 4'000;
constexpr size_t kMinRuns = 3;
constexpr size_t kMaxRuns = 1'000;

// The first `bytes` of `text`, or up to 3 fewer so that no character is cut.
std::string_view Beginning(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text;
  const size_t whole = CompleteUtf8Prefix(text.substr(0, bytes));
  return text.substr(0, whole > 0 ? whole : bytes);
}

// All of `text`, each call as Beginning; the last may be shorter.
std::vector<std::string_view> CutCalls(std::string_view text, size_t call) {
  std::vector<std::string_view> calls;
  while (!text.empty()) {
    calls.push_back(Beginning(text, call));
    text.remove_prefix(calls.back().size());
  }
  return calls;
}

// Seconds of each run; `run` returns them.
template <class F>
std::vector<double> Repeat(double seconds, F&& run) {
  std::vector<double> runs;
  const double begin = SteadySeconds();
  while (runs.size() < kMinRuns || (runs.size() < kMaxRuns && SteadySeconds() - begin < seconds)) {
    runs.push_back(run());
  }
  return runs;
}

// Median seconds of copying what each call reads: the calls one after the other to the same place,
// or, on several threads, all of them beside each other.
double CopySeconds(const std::vector<std::string_view>& calls, bool threads, double seconds) {
  std::vector<size_t> place(calls.size() + 1);
  size_t longest = 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    place[i + 1] = place[i] + calls[i].size();
    longest = std::max(longest, calls[i].size());
  }
  std::vector<char> to(threads ? place.back() : longest);
  const volatile char* seen = to.data();  // what is read is copied indeed
  return Median(Repeat(seconds, [&] {
    return SecondsOf([&] {
      if (threads) {
        ParallelFor(std::ssize(calls), [&](int64_t i, int) {
          const std::string_view call = calls[static_cast<size_t>(i)];
          std::memcpy(&to[place[static_cast<size_t>(i)]], call.data(), call.size());
        });
      } else {
        for (const std::string_view call : calls) {
          std::memcpy(to.data(), call.data(), call.size());
          static_cast<void>(seen[call.size() - 1]);
        }
      }
    });
  }));
}

class TokenizerBench {
 public:
  TokenizerBench(const BenchTokenizerOptions& options,
                 const std::function<void(const TokenizerTiming&)>& done)
      : options_(options), done_(done), tokenizer_(OpenTokenizer(options.tokenizer)) {}

  void Load(std::string_view name, std::string_view text) {
    if (Wants(TokenizerMeasure::kLoad)) {
      done_({.measure = TokenizerMeasure::kLoad, .seconds = Repeat(options_.seconds, [&] {
                                                   return SecondsOf(
                                                       [&] { OpenTokenizer(options_.tokenizer); });
                                                 })});
    }
    if (!Wants(TokenizerMeasure::kFirst)) return;
    const std::string_view first = Beginning(text, kSmallCall);
    TokenizerTiming timing{.measure = TokenizerMeasure::kFirst,
                           .text = std::string(name),
                           .cold = true,
                           .bytes = first.size()};
    timing.seconds = Repeat(options_.seconds, [&] {
      return SecondsOf([&] {
        const std::unique_ptr<Tokenizer> fresh = OpenTokenizer(options_.tokenizer);
        timing.tokens = std::ssize(fresh->EncodeOrdinary(first, name));
      });
    });
    done_(timing);
  }

  // Each text in calls of 1 KB, 1 MB and all of it, as far as it is long enough for them to differ.
  void Text(const std::string& name, std::string_view text) {
    if (Wants(TokenizerMeasure::kEncode)) {
      const std::string_view some = Beginning(text, kSmallCall * kSmallCalls);
      EncodeCalls(name, CutCalls(some, kSmallCall));
      if (text.size() > kSmallCall) {
        EncodeCalls(name, {Beginning(text, kLargeCall)});
      }
      if (text.size() > kLargeCall) EncodeCalls(name, {text});
    }
    const std::vector<int32_t> ids = tokenizer_->EncodeOrdinary(text, name);
    if (Wants(TokenizerMeasure::kEncode)) EncodeOnThreads(name, text, ids);
    if (Wants(TokenizerMeasure::kDecode)) Decode(name, text, ids);
    if (Wants(TokenizerMeasure::kTrain) && !trained_) Train(name, text);
  }

 private:
  bool Wants(TokenizerMeasure measure) const {
    return std::ranges::count(options_.measures, measure) > 0;
  }

  static uint64_t Bytes(const std::vector<std::string_view>& calls) {
    uint64_t bytes = 0;
    for (const std::string_view call : calls) bytes += call.size();
    return bytes;
  }

  // On one thread, cold and warm.
  void EncodeCalls(const std::string& name, const std::vector<std::string_view>& calls) {
    TokenizerTiming timing{.measure = TokenizerMeasure::kEncode,
                           .text = name,
                           .calls = std::ssize(calls),
                           .bytes = Bytes(calls)};
    timing.copy_seconds = CopySeconds(calls, /*threads=*/false, options_.seconds / 4);
    const auto encode = [&](const Tokenizer& tokenizer, std::vector<int32_t>& ids) {
      timing.tokens = 0;
      for (const std::string_view call : calls) {
        ids.clear();
        const size_t encoded = tokenizer.EncodePrefix(call, ids);
        if (encoded < call.size()) throw CannotEncode(tokenizer, call, encoded, {}, name);
        timing.tokens += std::ssize(ids);
      }
    };
    timing.cold = true;
    timing.seconds = Repeat(0, [&] {
      const std::unique_ptr<Tokenizer> fresh = OpenTokenizer(options_.tokenizer);
      std::vector<int32_t> ids;
      return SecondsOf([&] { encode(*fresh, ids); });
    });
    done_(timing);
    std::vector<int32_t> ids;
    encode(*tokenizer_, ids);
    timing.cold = false;
    timing.seconds =
        Repeat(options_.seconds, [&] { return SecondsOf([&] { encode(*tokenizer_, ids); }); });
    done_(timing);
  }

  // The text in one call, and in many small ones.
  void EncodeOnThreads(const std::string& name, std::string_view text,
                       const std::vector<int32_t>& ids) {
    TokenizerTiming timing{.measure = TokenizerMeasure::kEncode,
                           .text = name,
                           .threads = Threads(),
                           .calls = 1,
                           .bytes = text.size(),
                           .tokens = std::ssize(ids)};
    timing.copy_seconds =
        CopySeconds(CutCalls(text, kLargeCall), /*threads=*/true, options_.seconds / 4);
    const auto encode = [&](const Tokenizer& tokenizer) {
      std::vector<int32_t> result;
      const double seconds = SecondsOf([&] { result = EncodeParallel(tokenizer, text, name); });
      FOLIO_CHECK(result == ids, "threads changed the tokens");
      return seconds;
    };
    timing.cold = true;
    timing.seconds = Repeat(0, [&] { return encode(*OpenTokenizer(options_.tokenizer)); });
    done_(timing);
    timing.cold = false;
    timing.seconds = Repeat(options_.seconds, [&] { return encode(*tokenizer_); });
    done_(timing);

    const std::vector<std::string_view> calls =
        CutCalls(Beginning(text, kSmallCall * kSmallCalls), kSmallCall);
    timing.calls = std::ssize(calls);
    timing.bytes = Bytes(calls);
    timing.copy_seconds = CopySeconds(calls, /*threads=*/true, options_.seconds / 4);
    timing.seconds = Repeat(options_.seconds, [&] {
      std::vector<std::vector<int32_t>> results;
      const double seconds = SecondsOf([&] { results = EncodeBatch(*tokenizer_, calls); });
      timing.tokens = 0;
      for (const std::vector<int32_t>& result : results) timing.tokens += std::ssize(result);
      return seconds;
    });
    done_(timing);
  }

  void Decode(const std::string& name, std::string_view text, const std::vector<int32_t>& ids) {
    TokenizerTiming timing{.measure = TokenizerMeasure::kDecode,
                           .text = name,
                           .bytes = text.size(),
                           .tokens = std::ssize(ids)};
    timing.copy_seconds = CopySeconds({text}, /*threads=*/false, options_.seconds / 4);
    timing.seconds = Repeat(options_.seconds, [&] {
      std::string decoded;
      const double seconds = SecondsOf([&] { decoded = tokenizer_->Decode(ids); });
      FOLIO_CHECK(decoded == text, "decoding gave another text");
      return seconds;
    });
    done_(timing);
  }

  // Only once: it takes long.
  void Train(const std::string& name, std::string_view text) {
    trained_ = true;
    const BpeTrainerOptions training{.vocab_size = 257 + options_.merges};
    BpeTrainer trainer(training);
    TokenizerTiming timing{.measure = TokenizerMeasure::kTrain,
                           .text = name,
                           .cold = true,
                           .threads = Threads(),
                           .bytes = text.size()};
    timing.copy_seconds =
        CopySeconds(CutCalls(text, kLargeCall), /*threads=*/true, options_.seconds / 4);
    timing.seconds.push_back(SecondsOf([&] {
      trainer.AddText(text);
      trainer.Train();
    }));
    timing.tokens = trainer.tokens();
    done_(timing);
  }

  const BenchTokenizerOptions& options_;
  const std::function<void(const TokenizerTiming&)>& done_;
  std::unique_ptr<Tokenizer> tokenizer_;
  bool trained_ = false;
};

}  // namespace

std::string_view TokenizerMeasureName(TokenizerMeasure measure) {
  static constexpr std::string_view kNames[] = {"load", "first", "encode", "decode", "train"};
  return kNames[static_cast<int>(measure)];
}

double TokenizerTiming::median() const {
  return Median(seconds);
}

void BenchTokenizer(const BenchTokenizerOptions& options,
                    const std::function<void(const TokenizerTiming&)>& done) {
  FOLIO_CHECK(options.bytes > 0, "nothing to measure");
  TokenizerBench bench(options, done);
  bool first = true;
  const auto measure = [&](const std::string& name, std::string_view text) {
    if (text.empty()) throw InputError(name + ": nothing to measure", "the file is empty");
    if (first) bench.Load(name, text);
    first = false;
    bench.Text(name, text);
  };
  for (const BenchLanguage language : options.languages) {
    measure(std::string(BenchLanguageName(language)), InventedText(language, options.bytes, kSeed));
  }
  for (const std::string& file : options.files) {
    const MappedFile text(file);
    measure(file,
            Beginning({reinterpret_cast<const char*>(text.bytes().data()), text.bytes().size()},
                      options.bytes));
  }
}

}  // namespace folio
