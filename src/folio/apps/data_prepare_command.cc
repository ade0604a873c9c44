#include <fmt/format.h>

#include <string>
#include <vector>

#include "folio/apps/commands.h"
#include "folio/apps/describe_dataset.h"
#include "folio/apps/prepare_progress.h"
#include "folio/apps/run_config.h"
#include "folio/apps/signals.h"

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
                "in order, as one text, of which the end is held out for evaluation.",
            .examples = {"folio data prepare input.txt --tokenizer char --out data/input",
                         "folio data prepare a.txt b.txt --tokenizer bytes --out data/both"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positionals("FILE", &files_, "UTF-8 text", {.required = true});
    flags.Value(Field{"out", &out_, "directory to write"},
                {.placeholder = "DIR", .required = true});
    flags.Switch("--overwrite", &overwrite_, "replace the data set that is there");
    flags.Settings(&settings_, {"data"});
  }

  int Run(const Context& context) override {
    settings_.ReadSources(context.sources);
    settings_.Resolve();
    CatchSignals();
    const PrepareOptions options{.files = files_,
                                 .tokenizer = config_.data.tokenizer,
                                 .out = out_,
                                 .val_fraction = config_.data.val_fraction,
                                 .overwrite = overwrite_};
    const DatasetInfo made = PrepareWithProgress(options, context);
    context.console.Result(DescribeDataset(out_, made, context.console.json()));
    context.console.Note(
        fmt::format("next: folio train --data {} --preset char-cpu --out RUN", out_));
    return 0;
  }

 private:
  std::vector<std::string> files_;
  std::string out_;
  bool overwrite_ = false;
  RunConfig config_;
  Settings settings_{config_.Fields()};
};

}  // namespace

std::unique_ptr<Command> NewDataPrepareCommand() {
  return std::make_unique<DataPrepareCommand>();
}

}  // namespace folio
