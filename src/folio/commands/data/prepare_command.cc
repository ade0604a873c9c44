#include <fmt/format.h>

#include <string>

#include "folio/commands/commands.h"
#include "folio/corpus/describe_dataset.h"
#include "folio/corpus/prepare.h"
#include "folio/run/run_config.h"
#include "folio/term/signals.h"

namespace folio {
namespace {

class DataPrepareCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "data prepare",
            .summary = "turn text files into the tokens that training reads",
            .group = "data",
            .details =
                "Writes train.bin, val.bin, dataset.json and the tokenizer. Files are read\n"
                "in order, as one text, of which the end is held out for evaluation. Each file\n"
                "is a document, and so is the \"text\" of each line of a .jsonl file; a tokenizer\n"
                "that has an end-of-text puts it between them. Stopped, or killed, the same\n"
                "command goes on where it was.",
            .examples = {"folio data prepare input.txt --tokenizer char --out data/input",
                         "folio data prepare a.txt b.jsonl --tokenizer gpt2 --out data/both",
                         "folio data prepare big.txt --tokenizer gpt2 --special allow "
                         "--shard-tokens 100000000 --out data/big"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positionals("FILE", &options_.files, "text, or .jsonl with a \"text\" in each line",
                      {.required = true});
    flags.Value(Field{"out", &options_.out, "directory to write"},
                {.placeholder = "DIR", .required = true});
    flags.Switch("--overwrite", &options_.overwrite, "replace the data set that is there");
    flags.Value(Field{"special", &options_.special,
                      "what the text of a special token in a document is: that token, an error, or "
                      "ordinary text"}
                    .Choices({"allow", "raise", "ordinary"}));
    flags.Value(Field{"shard-tokens", &options_.shard_tokens,
                      "cut the data into files of so many tokens; 0 for one file", 0, 1e15});
    flags.Value(
        Field{"format", &options_.format, "folio: plain tokens; llmc: with llm.c's header"}.Choices(
            {"folio", "llmc"}));
    flags.Settings(&settings_.layers, {"data"});
  }

  int Run(const Context& context) override {
    settings_.layers.ReadSources(context.sources);
    settings_.layers.Resolve();
    CatchSignals();
    options_.tokenizer = settings_.config.data.tokenizer;
    options_.val_fraction = settings_.config.data.val_fraction;
    DatasetInfo made;
    try {
      made = PrepareWithProgress(options_, context.console, context.progress_mode);
    } catch (const Stopped&) {
      context.console.Note("stopped; the same command goes on with it");
      throw;
    }
    const std::string& out = options_.out;
    context.console.Result(DescribeDataset(out, made, context.console.json()));
    context.console.Note(fmt::format("next: folio train --data {} --out RUN", out));
    return 0;
  }

 private:
  PrepareOptions options_;
  RunSettings settings_;
};

}  // namespace

std::unique_ptr<Command> NewDataPrepareCommand() {
  return std::make_unique<DataPrepareCommand>();
}

}  // namespace folio
