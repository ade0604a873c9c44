#include <filesystem>
#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/commands/commands.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/run/fetch_model.h"
#include "folio/term/signals.h"

namespace folio {
namespace {

class FetchCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "fetch",
            .summary = "download a published model",
            .group = "model",
            .details =
                "Puts OpenAI's GPT-2, with its tokenizer, where --model NAME looks for it: in\n"
                "$FOLIO_HOME/models, else ~/.cache/folio/models. A download that was cut goes on\n"
                "where it was; a file is kept only if it is, byte for byte, the published one.",
            .examples = {"folio fetch gpt2", "folio fetch --list",
                         "folio fetch gpt2-medium --from ~/Downloads/gpt2-medium"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positionals("NAME", &names_, "models to fetch", {.suggestions = PublishedModelNames()});
    flags.Switch("--list", &list_, "show the models, and which of them are here");
    flags.Value(Field{"from", &from_, "take the files from this directory, not the network"},
                {.placeholder = "DIR"});
  }

  int Run(const Context& context) override {
    if (list_) {
      context.console.Result(DescribeModels(context.console.json()));
      return 0;
    }
    if (names_.empty()) {
      throw UsageError("folio fetch needs NAME", "models to fetch",
                       "folio fetch --list shows them");
    }
    CatchSignals();
    std::vector<const PublishedModel*> models;
    for (const std::string& name : names_) models.push_back(&PublishedModelNamed(name));
    if (!from_.empty()) RequireDirectory(from_);
    for (const PublishedModel* model : models) {
      const std::filesystem::path dir =
          FetchModel(*model, from_, context.console, context.progress_mode);
      if (context.console.json()) {
        const Json json = {{"schema", 1}, {"name", model->name}, {"dir", dir.string()}};
        context.console.Result(json.dump() + "\n");
      } else {
        context.console.Note("next: folio generate --model " + std::string(model->name));
      }
    }
    return 0;
  }

 private:
  std::vector<std::string> names_;
  std::string from_;
  bool list_ = false;
};

}  // namespace

std::unique_ptr<Command> NewFetchCommand() {
  return std::make_unique<FetchCommand>();
}

}  // namespace folio
