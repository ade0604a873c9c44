#include "folio/bench/tokenizer_speed.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <span>

#include "folio/base/check.h"
#include "folio/base/clock.h"
#include "folio/base/rng.h"
#include "folio/base/thread_pool.h"
#include "folio/base/utf8.h"
#include "folio/io/file.h"
#include "folio/text/bpe_trainer.h"
#include "folio/text/encode_parallel.h"
#include "folio/text/encodings.h"
#include "folio/text/tokenizer.h"

namespace folio {
namespace {

// A position in syllables: so many percent of them have a letter here, the first ones more often.
struct Letter {
  std::u32string alphabet;
  uint32_t percent;
};

enum class After { kGoOn, kCapital, kIndent, kOutdent };

// A separator follows a word; a line break in it is followed by the indentation.
struct Separator {
  uint32_t percent;
  std::string_view text;
  After after = After::kGoOn;
};

struct Script {
  std::string_view name;
  ZipfMandelbrot law;
  double syllables;          // by which the longest words grow with every tenfold rank
  uint32_t percent_numbers;  // among the words
  std::vector<Letter> syllable;
  std::vector<Separator> separators;  // the percentages sum up to 100
};

std::u32string Range(char32_t first, char32_t last) {
  std::u32string range;
  for (char32_t c = first; c <= last; ++c) range += c;
  return range;
}

// With these laws and percentages GPT-2's pattern splits the text like real text of each kind:
// novels, sources, subtitles.
const Script& ScriptOf(BenchLanguage language) {
  using enum After;
  static const std::array<Script, kBenchLanguages.size()> kScripts = {{
      {"english",
       {40, 1.55},
       0.8,
       1,
       {{U"taoinshrdlcmfgwypbvk", 75}, {U"eaoiu", 100}, {U"nrstldm", 45}},
       {{84, " "},
        {6, ", "},
        {4, ". ", kCapital},
        {2, ".\n", kCapital},
        {1, "?\n\n", kCapital},
        {1, "; "},
        {1, "'s "},
        {1, " -- "}}},
      {"code",
       {150, 2},
       0.9,
       5,
       {{U"stcpdrmfnlbgvxkw", 75}, {U"eaiou", 100}, {U"nrtslxd", 40}},
       {{16, " "},
        {15, "_"},
        {11, "."},
        {10, " = "},
        {10, ", "},
        {9, "("},
        {7, ")\n"},
        {5, "\n"},
        {4, "):\n", kIndent},
        {4, "\n\n", kOutdent},
        {3, "", kCapital},
        {2, " + "},
        {2, " == "},
        {1, "[\""},
        {1, "\"]\n"}}},
      {"chinese",
       {20, 1.45},
       0.7,
       1,
       {{Range(0x4E00, 0x5BAB), 100}},
       {{66, ""}, {16, "，"}, {8, "。"}, {7, "。\n"}, {3, "？\n"}}},
      {"japanese",
       {10, 1.4},
       0.7,
       1,
       {{Range(0x4E00, 0x55CF), 35}, {Range(0x3042, 0x3093), 75}, {Range(0x30A2, 0x30F3), 5}},
       {{77, ""}, {11, "、"}, {6, "。"}, {4, "。\n"}, {1, "「"}, {1, "」"}}},
      {"russian",
       {50, 1.5},
       1,
       1,
       {{U"нтсрвлкмдпгзбчхжшцщ", 75}, {U"оеаиуыяюэ", 100}, {U"нрстлкмйь", 40}},
       {{77, " "},
        {9, ", "},
        {4, ". ", kCapital},
        {6, ".\n", kCapital},
        {2, "?\n", kCapital},
        {2, " – "}}},
  }};
  return kScripts[static_cast<size_t>(language)];
}

// Random numbers one after the other.
class Draws {
 public:
  Draws(uint64_t seed, uint64_t a, BenchLanguage language, uint64_t index = 0)
      : rng_(seed, RngStream(RngPurpose::kCorpus, a, static_cast<uint64_t>(language))),
        index_(index) {}

  uint32_t Bits() { return rng_.Bits(index_++); }
  double Uniform() { return rng_.Uniform(index_++); }
  bool Chance(uint32_t percent) { return Uniform() * 100 < percent; }

 private:
  CounterRng rng_;
  uint64_t index_;
};

// Words of lower rank are shorter, as in any language.
std::u32string Word(BenchLanguage language, uint64_t rank) {
  const Script& script = ScriptOf(language);
  Draws draws(0, 1, language, rank * 128);
  const double longest = 1 + script.syllables * std::log10(static_cast<double>(rank) + 1);
  std::u32string word;
  for (double left = draws.Uniform() * longest; left >= 0 || word.empty(); --left) {
    for (const auto& [alphabet, percent] : script.syllable) {
      const double u = draws.Uniform();
      const size_t letter = static_cast<size_t>(u * u * static_cast<double>(alphabet.size()));
      if (draws.Chance(percent)) word += alphabet[letter];
    }
  }
  return word;
}

// Below 1024, the smaller ones more often.
std::u32string Number(uint32_t bits) {
  const std::string digits = std::to_string(bits >> (22 + bits % 10));
  return {digits.begin(), digits.end()};
}

// Capitals of the Latin and the Russian alphabet.
char32_t Capital(char32_t c) {
  return (c >= U'a' && c <= U'z') || (c >= U'а' && c <= U'я') ? c - 32 : c;
}

const Separator& Choose(std::span<const Separator> separators, double percent) {
  size_t i = 0;
  while (i + 1 < separators.size() && percent >= separators[i].percent) {
    percent -= separators[i++].percent;
  }
  return separators[i];
}

}  // namespace

uint64_t ZipfMandelbrot::Rank(uint32_t bits) const {
  const double beyond = std::pow((bits + 1.0) * 0x1p-32, -1 / (exponent - 1));
  return static_cast<uint64_t>(std::min(shift * (beyond - 1), 0x1p56));
}

std::string_view BenchLanguageName(BenchLanguage language) {
  return ScriptOf(language).name;
}

std::string InventedText(BenchLanguage language, size_t bytes, uint64_t seed) {
  const Script& script = ScriptOf(language);
  Draws draws(seed, 2, language);
  constexpr size_t kDeepest = 4;
  size_t depth = 0;
  After after = After::kCapital;
  std::string text;
  text.reserve(bytes + 1024);
  while (text.size() < bytes) {
    const uint32_t bits = draws.Bits();
    std::u32string word =
        draws.Chance(script.percent_numbers) ? Number(bits) : Word(language, script.law.Rank(bits));
    if (after == After::kCapital) word[0] = Capital(word[0]);
    for (const char32_t c : word) AppendUtf8(c, text);
    const Separator& separator = Choose(script.separators, draws.Uniform() * 100);
    text += separator.text;
    after = separator.after;
    if (after == After::kIndent) depth = std::min(depth + 1, kDeepest);
    if (after == After::kOutdent && depth > 0) --depth;
    if (separator.text.ends_with('\n')) text.append(4 * depth, ' ');
  }
  text.resize(bytes);
  text.resize(CompleteUtf8Prefix(text));
  return text;
}

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
  const volatile char* seen = to.data();  // keeps the compiler from leaving out the copies
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
      done_({.seconds = Repeat(options_.seconds, [&] {
               return SecondsOf([&] { OpenTokenizer(options_.tokenizer); });
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

  // Measures a text in calls of 1 KB, of 1 MB and as a whole, if it is long enough for them to
  // differ.
  void Text(const std::string& name, std::string_view text) {
    const std::vector<int32_t> ids = tokenizer_->EncodeOrdinary(text, name);
    if (Wants(TokenizerMeasure::kEncode)) {
      const std::vector<std::string_view> calls =
          CutCalls(Beginning(text, kSmallCall * kSmallCalls), kSmallCall);
      EncodeCalls(name, calls);
      if (text.size() > kSmallCall) EncodeCalls(name, {Beginning(text, kLargeCall)});
      if (text.size() > kLargeCall) EncodeCalls(name, {text});
      EncodeOnThreads(name, text, ids);
      EncodeBatches(name, calls);
    }
    if (Wants(TokenizerMeasure::kDecode)) Decode(name, text, ids);
    if (Wants(TokenizerMeasure::kTrain) && !trained_) Train(name, text);
  }

 private:
  bool Wants(TokenizerMeasure measure) const {
    return std::ranges::count(options_.measures, measure) > 0;
  }

  // A timing of work on the bytes of these calls, with the time of copying them.
  TokenizerTiming Timing(TokenizerMeasure measure, const std::string& name,
                         const std::vector<std::string_view>& calls, bool threads) const {
    TokenizerTiming timing{.measure = measure,
                           .text = name,
                           .threads = threads ? Threads() : 1,
                           .copy_seconds = CopySeconds(calls, threads, options_.seconds / 4)};
    for (const std::string_view call : calls) timing.bytes += call.size();
    return timing;
  }

  // The seconds that encode(tokenizer) returns for a tokenizer that was just opened, and for one
  // that has encoded the same before.
  template <class F>
  void ColdAndWarm(TokenizerTiming& timing, const F& encode) {
    timing.cold = true;
    timing.seconds = Repeat(0, [&] { return encode(*OpenTokenizer(options_.tokenizer)); });
    done_(timing);
    encode(*tokenizer_);
    timing.cold = false;
    timing.seconds = Repeat(options_.seconds, [&] { return encode(*tokenizer_); });
    done_(timing);
  }

  // On one thread.
  void EncodeCalls(const std::string& name, const std::vector<std::string_view>& calls) {
    TokenizerTiming timing = Timing(TokenizerMeasure::kEncode, name, calls, /*threads=*/false);
    timing.calls = std::ssize(calls);
    std::vector<int32_t> ids;
    ColdAndWarm(timing, [&](const Tokenizer& tokenizer) {
      timing.tokens = 0;
      return SecondsOf([&] {
        for (const std::string_view call : calls) {
          ids.clear();
          const size_t encoded = tokenizer.EncodePrefix(call, ids);
          if (encoded < call.size()) throw CannotEncode(tokenizer, call, encoded, {}, name);
          timing.tokens += std::ssize(ids);
        }
      });
    });
  }

  void EncodeOnThreads(const std::string& name, std::string_view text,
                       const std::vector<int32_t>& ids) {
    TokenizerTiming timing =
        Timing(TokenizerMeasure::kEncode, name, CutCalls(text, kLargeCall), /*threads=*/true);
    timing.tokens = std::ssize(ids);
    ColdAndWarm(timing, [&](const Tokenizer& tokenizer) {
      std::vector<int32_t> result;
      const double seconds = SecondsOf([&] {
        result.clear();
        EncodeParallel(tokenizer, text, name, result);
      });
      FOLIO_CHECK(result == ids, "threads changed the tokens");
      return seconds;
    });
  }

  void EncodeBatches(const std::string& name, const std::vector<std::string_view>& calls) {
    TokenizerTiming timing = Timing(TokenizerMeasure::kEncode, name, calls, /*threads=*/true);
    timing.calls = std::ssize(calls);
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
    TokenizerTiming timing = Timing(TokenizerMeasure::kDecode, name, {text}, /*threads=*/false);
    timing.tokens = std::ssize(ids);
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
    BpeTrainer trainer({.vocab_size = 257 + options_.merges});
    TokenizerTiming timing =
        Timing(TokenizerMeasure::kTrain, name, CutCalls(text, kLargeCall), /*threads=*/true);
    timing.cold = true;
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
