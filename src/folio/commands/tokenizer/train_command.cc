#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/cli/compute_flags.h"
#include "folio/commands/commands.h"
#include "folio/io/file.h"
#include "folio/io/output_directory.h"
#include "folio/term/byte_streams.h"
#include "folio/term/rate.h"
#include "folio/term/signals.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/bpe_trainer.h"
#include "folio/text/tokenizer_file.h"
#include "folio/text/utf8.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// Bytes of text in memory at once, as long as it can be cut.
constexpr size_t kTrainingWindow = size_t{1} << 25;

// Shows how far one kind of work is, and ends it by Stopped on request.
class Phase {
 public:
  Phase(const Context& context, std::string unit)
      : progress_(context.console, context.progress_mode), unit_(std::move(unit)) {}

  // `total` is 0 where nobody knows.
  void Show(int64_t done, int64_t total) {
    ThrowIfStopRequested();
    if (!progress_.Due()) return;
    const double now = SteadySeconds();
    rate_.Add(static_cast<double>(done - done_), now - seconds_);
    done_ = done;
    seconds_ = now;
    std::vector<ProgressField> fields;
    if (total > 0) {
      const double eta = rate_.Eta(static_cast<double>(total - done));
      fields.push_back(
          {"eta_s", fmt::format("{:.0f}", eta), fmt::format("eta {}", HumanSeconds(eta))});
    }
    progress_.Show({unit_, done, total, fields});
  }

 private:
  Progress progress_;
  std::string unit_;
  RateMeter rate_{/*warm_up=*/0};
  int64_t done_ = 0;
  double seconds_ = SteadySeconds();
};

// A place near the end of the beginning of a text where it can be cut; 0 if there is none.
size_t LastCut(std::string_view text) {
  text = text.substr(0, CompleteUtf8Prefix(text));
  for (size_t back = 4096;; back *= 8) {
    const size_t at = text.size() > back ? text.size() - back : 1;
    const size_t cut = at < text.size() ? FindCut(text, at) : text.size();
    if (cut < text.size()) return cut;
    if (at == 1) return 0;
  }
}

// Bytes of all files, 0 where one of them is no file on disk.
int64_t TotalBytes(const std::vector<std::string>& files) {
  int64_t total = 0;
  for (const std::string& file : files) {
    std::error_code error;
    if (!fs::is_regular_file(file, error)) return 0;
    total += static_cast<int64_t>(fs::file_size(file, error));
  }
  return total;
}

// Gives all files to the trainer, each a document, and returns how many bytes they have.
int64_t CountFiles(const std::vector<std::string>& files, BpeTrainer& trainer,
                   const std::function<void(int64_t done)>& progress) {
  int64_t bytes = 0;
  std::string text;
  for (const std::string& file : files) {
    ByteInput input(file);
    size_t window = kTrainingWindow;
    for (bool at_end = false; !at_end;) {
      while (text.size() < window && !at_end) {
        const size_t got = input.Read(text, window - text.size());
        bytes += static_cast<int64_t>(got);
        at_end = got == 0;
      }
      const size_t cut = at_end ? text.size() : LastCut(text);
      trainer.AddText(std::string_view(text).substr(0, cut));
      text.erase(0, cut);
      window = std::max(kTrainingWindow, 2 * text.size());
      progress(bytes);
    }
  }
  return bytes;
}

bool IsTokenizerFile(const std::string& name) {
  return std::ranges::find(kTokenizerFiles, name) != kTokenizerFiles.end();
}

// What was made, and of what.
struct Summary {
  std::string out;
  std::string pattern;
  std::string hash;
  int64_t vocab_size = 0;
  int64_t merges = 0;
  int64_t bytes = 0;
  int64_t pieces = 0;
  int64_t distinct_pieces = 0;
  int64_t tokens = 0;
  double count_seconds = 0;
  double merge_seconds = 0;

  double BytesPerToken() const {
    return tokens == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(tokens);
  }
};

std::string Describe(const Summary& made, bool json) {
  if (json) {
    const nlohmann::ordered_json values = {{"schema", 1},
                                           {"dir", made.out},
                                           {"pattern", made.pattern},
                                           {"tokenizer_hash", made.hash},
                                           {"vocab_size", made.vocab_size},
                                           {"merges", made.merges},
                                           {"bytes", made.bytes},
                                           {"pieces", made.pieces},
                                           {"distinct_pieces", made.distinct_pieces},
                                           {"tokens", made.tokens},
                                           {"bytes_per_token", made.BytesPerToken()},
                                           {"count_s", made.count_seconds},
                                           {"merge_s", made.merge_seconds}};
    return values.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  return fmt::format(
      "directory    {}\n"
      "vocabulary   {} tokens, {} merges\n"
      "pattern      {}\n"
      "text         {}, {} pieces, {} of them distinct\n"
      "tokens       {}, {:.3f} bytes per token\n"
      "time         {:.2f} s to count, {:.2f} s to merge\n",
      made.out, WithCommas(made.vocab_size), WithCommas(made.merges), made.pattern,
      HumanBytes(static_cast<double>(made.bytes)), WithCommas(made.pieces),
      WithCommas(made.distinct_pieces), WithCommas(made.tokens), made.BytesPerToken(),
      made.count_seconds, made.merge_seconds);
}

class TokenizerTrainCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "tokenizer train",
        .summary = "make a byte-level BPE tokenizer from texts",
        .group = "tokenizer",
        .details =
            "Cuts the texts into pieces by --pattern and merges the most frequent pair of\n"
            "neighbours, of equally frequent ones that with the smallest ids, until there are\n"
            "--vocab-size tokens. Writes tokenizer.json, tokenizer_config.json, vocab.json and\n"
            "merges.txt, which Hugging Face's libraries read too. Each file is a text of its\n"
            "own; bytes that are not UTF-8 are learned like all others.",
        .examples = {"folio tokenizer train books/*.txt --vocab-size 32000 --out tokenizers/b",
                     "folio tokenizer train - --vocab-size 1024 --pattern o200k --out t1k"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positionals("FILE", &files_, "texts to learn from; - for standard input",
                      {.required = true});
    flags.Value(Field{"out", &out_, "directory to write"},
                {.placeholder = "DIR", .required = true});
    flags.Value(Field{"vocab-size", &options_.vocab_size, "tokens, with bytes and special tokens",
                      256, 1 << 21});
    flags.Value(
        Field{"pattern", &pattern_, "how text is cut into pieces before it is merged"}.Choices(
            {"gpt2", "cl100k", "o200k"}));
    flags.Value(Field{"specials", &specials_, "special tokens, with commas between"});
    flags.Switch("--specials-first", &options_.specials_first,
                 "give special tokens the first ids, not the last");
    flags.Value(Field{"min-count", &options_.min_count, "least count of a pair that is merged", 1});
    compute_.Add(flags);
    flags.Switch("--overwrite", &overwrite_, "replace the tokenizer that is there");
  }

  int Run(const Context& context) override {
    CatchSignals();
    compute_.Use();
    options_.pattern = *FindSplitPattern(pattern_);
    options_.specials = specials_.empty() ? std::vector<std::string>{} : Split(specials_, ',');
    CheckReplaceable(out_, "tokenizer", overwrite_, IsTokenizerFile);
    CreateParentOf(out_);
    AtomicDirectory directory(out_);
    BpeTrainer trainer(options_);

    Summary made;
    made.out = out_;
    made.pattern = pattern_;
    const double begin = SteadySeconds();
    made.bytes = Count(trainer, context);
    const double counted = SteadySeconds();
    BpeVocab vocab = Merge(trainer, context);
    made.count_seconds = counted - begin;
    made.merge_seconds = SteadySeconds() - counted;
    const BpeTokenizer tokenizer(std::move(vocab));
    tokenizer.Save(directory.path().string());
    ThrowIfStopRequested();
    directory.Commit();

    made.hash = tokenizer.hash();
    made.vocab_size = tokenizer.vocab_size();
    made.merges = std::ssize(tokenizer.vocab().merges);
    made.pieces = trainer.pieces();
    made.distinct_pieces = trainer.distinct_pieces();
    made.tokens = trainer.tokens();
    if (made.vocab_size < options_.vocab_size) {
      context.console.Note(fmt::format("the texts have no more pairs to merge: {} tokens, not {}",
                                       WithCommas(made.vocab_size),
                                       WithCommas(options_.vocab_size)));
    }
    context.console.Result(Describe(made, context.console.json()));
    const std::string text = files_.front() == "-" ? "FILE" : files_.front();
    context.console.Note(
        fmt::format("next: folio data prepare {} --tokenizer {} --out DATA", text, out_));
    return 0;
  }

 private:
  int64_t Count(BpeTrainer& trainer, const Context& context) const {
    Phase phase(context, "bytes");
    const int64_t total = TotalBytes(files_);
    const int64_t bytes =
        CountFiles(files_, trainer, [&](int64_t done) { phase.Show(done, total); });
    if (bytes == 0) {
      throw InputError(fmt::format("{}: empty", files_.front()), "there is nothing to learn from",
                       "name a text file");
    }
    return bytes;
  }

  static BpeVocab Merge(BpeTrainer& trainer, const Context& context) {
    Phase phase(context, "merge");
    return trainer.Train([&](int64_t done, int64_t total) { phase.Show(done, total); });
  }

  std::vector<std::string> files_;
  std::string out_, pattern_ = "gpt2", specials_ = "<|endoftext|>";
  BpeTrainerOptions options_;
  ComputeFlags compute_;
  bool overwrite_ = false;
};

}  // namespace

std::unique_ptr<Command> NewTokenizerTrainCommand() {
  return std::make_unique<TokenizerTrainCommand>();
}

}  // namespace folio
