#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/clock.h"
#include "folio/base/strings.h"
#include "folio/commands/commands.h"
#include "folio/commands/model_flags.h"
#include "folio/corpus/text_files.h"
#include "folio/corpus/train_tokenizer.h"
#include "folio/term/progress.h"
#include "folio/term/signals.h"

namespace folio {
namespace {

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
          {"eta_seconds", fmt::format("{:.0f}", eta), fmt::format("eta {}", HumanSeconds(eta))});
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
            "own, and so is each document of JSON lines; what is compressed is unpacked, as\n"
            "by folio data prepare. Bytes that are not UTF-8 are learned like all others.",
        .examples = {"folio tokenizer train books/*.txt --vocab-size 32000 --out tokenizers/b",
                     "folio tokenizer train - --vocab-size 1024 --pattern o200k --out t1k"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positionals("FILE", &options_.files,
                      "texts to learn from, or directories of such; - for standard input",
                      {.required = true});
    flags.Value(Field{"out", &options_.out, "directory to write"},
                {.placeholder = "DIR", .required = true});
    flags.Value(Field{"vocab-size", &options_.trainer.vocab_size,
                      "tokens, with bytes and special tokens", 256, 1 << 21});
    flags.Value(
        Field{"pattern", &pattern_, "how text is cut into pieces before it is merged"}.Choices(
            {"gpt2", "cl100k", "o200k"}));
    flags.Value(Field{"specials", &specials_, "special tokens, with commas between"});
    flags.Switch("--specials-first", &options_.trainer.specials_first,
                 "give special tokens the first ids, not the last");
    flags.Value(
        Field{"min-count", &options_.trainer.min_count, "least count of a pair that is merged", 1});
    flags.Value(
        Field{"field", &options_.texts.field, "of JSON lines: the member that holds the text"});
    compute_.Add(flags);
    flags.Switch("--overwrite", &options_.overwrite, "replace the tokenizer that is there");
  }

  int Run(const Context& context) override {
    CatchSignals();
    compute_.Use();
    BpeTrainerOptions& trainer = options_.trainer;
    trainer.pattern = *FindSplitPattern(pattern_);
    trainer.specials = specials_.empty() ? std::vector<std::string>{} : Split(specials_, ',');
    std::optional<Phase> phase;
    const auto show = [&](const char* unit) {
      return [&phase, &context, unit, begun = false](int64_t done, int64_t total) mutable {
        if (!std::exchange(begun, true)) phase.emplace(context, unit);
        phase->Show(done, total);
      };
    };
    const std::string text = options_.files.front() == "-" ? "FILE" : options_.files.front();
    TextFiles found = FindTextFiles(options_.files, options_.texts);
    if (!found.left_out.empty()) context.console.Note(found.left_out);
    options_.files = std::move(found.files);
    const TrainedTokenizer made =
        TrainTokenizer(options_, {.counting = show("bytes"), .merging = show("merge")});
    phase.reset();
    if (made.vocab_size < trainer.vocab_size) {
      context.console.Note(fmt::format("the texts have no more pairs to merge: {} tokens, not {}",
                                       WithCommas(made.vocab_size),
                                       WithCommas(trainer.vocab_size)));
    }
    context.console.Result(DescribeTrained(options_, made, context.console.json()));
    context.console.Note(
        fmt::format("next: folio data prepare {} --tokenizer {} --out DATA", text, options_.out));
    return 0;
  }

 private:
  TrainTokenizerOptions options_;
  std::string pattern_ = "gpt2", specials_ = "<|endoftext|>";
  ComputeFlags compute_;
};

}  // namespace

std::unique_ptr<Command> NewTokenizerTrainCommand() {
  return std::make_unique<TokenizerTrainCommand>();
}

}  // namespace folio
