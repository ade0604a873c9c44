#include <fmt/format.h>

#include <string>

#include "folio/base/strings.h"
#include "folio/commands/commands.h"
#include "folio/corpus/fetch_published.h"
#include "folio/io/json.h"
#include "folio/term/signals.h"

namespace folio {
namespace {

class DataFetchCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "data fetch",
            .summary = "download a published text to learn from",
            .group = "data",
            .details =
                "Knows tinyshakespeare: 1.1 MB of Shakespeare, the text of nanoGPT's first\n"
                "example. The file is kept only if it is, byte for byte, the published one.",
            .examples = {"folio data fetch tinyshakespeare",
                         "folio data fetch tinyshakespeare --out data/shakespeare.txt",
                         "folio data fetch tinyshakespeare --from ~/Downloads/input.txt"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positional(Field{"NAME", &name_, "the text to fetch"}, {.required = true});
    flags.Value(Field{"out", &out_, "file to write; NAME.txt if not given"},
                {.placeholder = "FILE"});
    flags.Value(Field{"from", &from_, "take the text from this file, not the network"},
                {.placeholder = "FILE"});
    flags.Switch("--overwrite", &overwrite_, "replace another file that is there");
  }

  int Run(const Context& context) override {
    CatchSignals();
    const PublishedFile& text = PublishedText(name_);
    const std::string out = out_.empty() ? name_ + ".txt" : out_;
    FetchText(text, out, from_, overwrite_, context.console, context.progress_mode);
    if (context.console.json()) {
      context.console.Result(Json{{"schema", 1}, {"name", name_}, {"path", out}}.dump() + "\n");
      return 0;
    }
    context.console.Note(fmt::format("next: folio train --data {} --out RUN", ShellWord(out)));
    return 0;
  }

 private:
  std::string name_, out_, from_;
  bool overwrite_ = false;
};

}  // namespace

std::unique_ptr<Command> NewDataFetchCommand() {
  return std::make_unique<DataFetchCommand>();
}

}  // namespace folio
