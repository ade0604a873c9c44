#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/commands/commands.h"
#include "folio/corpus/fetch_published.h"
#include "folio/formats/published_models.h"
#include "folio/io/file.h"
#include "folio/io/guarded_directory.h"
#include "folio/io/json.h"
#include "folio/report/report.h"
#include "folio/term/progress.h"
#include "folio/term/signals.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

fs::path DirOf(const PublishedModel& model) {
  fs::path dir = PublishedModelDir(model);
  if (!dir.empty()) return dir;
  throw UsageError("there is no place for models",
                   "none of FOLIO_HOME, XDG_CACHE_HOME and HOME is set",
                   "set FOLIO_HOME to a directory for them");
}

// The way to do without the network of this machine.
std::string Elsewhere(const PublishedModel& model, const fs::path& dir) {
  std::vector<std::string> missing;
  std::error_code ignored;
  for (const PublishedFile& file : model.files) {
    if (!fs::exists(dir / file.name, ignored)) missing.emplace_back(file.name);
  }
  return fmt::format(
      "type it again to go on; without a network, download {} from "
      "https://huggingface.co/openai-community/{}/tree/main elsewhere and put them in {}",
      Join(missing, ", "), model.name, dir.string());
}

// The published model of that name. Throws a kUsage Error that names the nearest where there is
// none.
const PublishedModel& PublishedModelNamed(const std::string& name) {
  if (const PublishedModel* model = FindPublishedModel(name)) return *model;
  const std::vector<std::string> names = PublishedModelNames();
  const std::string nearest = Nearest(name, names);
  throw UsageError(fmt::format("there is no published model '{}'", name),
                   "the models are " + Join(names, ", "),
                   nearest.empty() ? "folio fetch --list describes them"
                                   : fmt::format("did you mean '{}'?", nearest));
}

// Gets the files of a model that are not here yet to where `--model NAME` looks for them, and
// returns that directory: from the directory `from`, or where that is "" from the network, with a
// progress line; what an earlier call left of one is gone on from.
fs::path FetchModel(const PublishedModel& model, const fs::path& from, Console& console,
                    ProgressMode mode) {
  fs::path dir = DirOf(model);
  bool any = false;
  for (const PublishedFile& file : model.files) {
    WantedFile wanted = {dir / file.name, std::string(file.sha256), file.bytes};
    if (IsThere(wanted)) continue;
    any = true;
    CreateDirectories(dir);
    const GuardedDirectory inside(dir);
    if (from.empty()) wanted.otherwise = Elsewhere(model, dir);
    FetchPublished(file, wanted, from.empty() ? from : from / file.name, console, mode);
  }
  console.Note(fmt::format("{} is {} {}{}", model.name, any ? "now in" : "in", dir.string(),
                           any ? "" : " already"));
  return dir;
}

// All published models, and which of them are here.
Report ModelsReport() {
  ReportTable table{.key = "models"};
  for (const PublishedModel& model : PublishedModels()) {
    const fs::path dir = DirOf(model);
    int64_t bytes = 0;
    bool here = true;
    std::error_code ignored;
    for (const PublishedFile& file : model.files) {
      bytes += file.bytes;
      here = here && fs::exists(dir / file.name, ignored);
    }
    table.rows.push_back({{"name", "name", model.name},
                          {"here", "files", {here ? "here" : "-", here}},
                          {"dir", "", dir.string()},
                          {"", ">size", Value::Bytes(bytes)},
                          {"", "model", model.summary}});
  }
  return {.parts = {{.table = table}}};
}

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
      ShowReport(context.console, ModelsReport(), -1);
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
      const fs::path dir = FetchModel(*model, from_, context.console, context.progress_mode);
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

CommandList FetchCommands() {
  return CommandsOf<FetchCommand>();
}

}  // namespace folio
