#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/signals.h"
#include "folio/base/strings.h"
#include "folio/cli/command_line.h"
#include "folio/commands/commands.h"
#include "folio/commands/fetch_command.h"
#include "folio/corpus/fetch_published.h"
#include "folio/formats/fetched_models.h"
#include "folio/formats/model_formats.h"
#include "folio/formats/published_models.h"
#include "folio/io/hub.h"
#include "folio/io/json.h"
#include "folio/term/terminal_text.h"

namespace folio {
namespace {

// The files of a repository that belong to its model, as the hub lists them now.
PublishedSet SetOfRepository(const std::string& name, const RepositoryModel& model) {
  RequireFetchedHome("models");
  Hub hub = Hub::OfEnvironment();
  hub.limits.on_wait = ThrowIfStopRequested;
  PublishedSet set{.name = name, .dir = FetchedDir(name), .limits = hub.limits};
  for (const HubFile& file : FilesOfModel(model, ListRepository(hub, model.repository))) {
    set.files.push_back({.name = file.path,
                         .url = AddressOf(hub, model.repository, file.path),
                         .hash = file.hash,
                         .bytes = file.bytes,
                         .path = set.dir / file.path});
  }
  return set;
}

std::optional<PublishedSet> FindModelSet(const std::string& name) {
  const PublishedModel* model = FindPublishedModel(name);
  if (model == nullptr) {
    const auto repository = ParseRepositoryModel(name);
    if (!repository) return std::nullopt;
    return SetOfRepository(name, *repository);
  }
  RequireFetchedHome("models");
  PublishedSet set{.name = std::string(model->name),
                   .summary = std::string(model->summary),
                   .dir = PublishedModelDir(*model)};
  for (const PublishedFile& file : model->files) {
    set.files.push_back(AsSetFile(file, set.dir / file.name));
  }
  return set;
}

std::string DownloadElsewhere(const PublishedSet& set, const std::vector<size_t>& missing) {
  const PublishedModel* published = FindPublishedModel(set.name);
  if (published == nullptr) return "run the command again to continue";
  std::vector<std::string> names;
  for (const size_t file : missing) names.push_back(set.files[file].name);
  return fmt::format(
      "run the command again to continue; without a network, download {} from {} on another "
      "machine and put them in {}",
      Join(names, ", "), published->page, set.dir.string());
}

// The published models, which `--model NAME` opens after they were fetched.
const PublishedKind& PublishedModelSets() {
  static const PublishedKind kind = {.one = "model",
                                     .many = "models",
                                     .command = "folio fetch",
                                     .contents = "model",
                                     .hashed = false,
                                     .names = PublishedModelNames(),
                                     .find = FindModelSet,
                                     .otherwise = DownloadElsewhere};
  return kind;
}

class FetchCommand final : public FetchPublishedCommand {
 public:
  FetchCommand() : FetchPublishedCommand(PublishedModelSets(), "folio generate --model") {}

  CommandInfo info() const override {
    return {
        .name = "fetch",
        .summary = "download a model",
        .group = "model",
        .details =
            "Downloads a model, with its tokenizer, to where --model NAME looks for it: in\n"
            "$FOLIO_HOME/models, else ~/.cache/folio/models. NAME is one of the list, or any\n"
            "public repository on huggingface.co, OWNER/NAME, that holds safetensors or GGUF\n"
            "files. Of several GGUF files OWNER/NAME:FILE names one, by its name or by what it\n"
            "is quantised to (OWNER/NAME:Q8_0); without it that of Q4_K_M is taken. Size and\n"
            "free disk space are checked first, and every file is compared with the hash that\n"
            "the server publishes. A download that was cut goes on where it was. The model\n"
            "appears when all of its files have come.\n"
            "HF_TOKEN is sent, to that server alone, for models with conditions to accept;\n"
            "HF_ENDPOINT is another server of the same interface. folio models lists what is\n"
            "there. GPT-2 is OpenAI's (modified MIT licence). SmolLM2 (Hugging Face), Qwen 2.5\n"
            "and 3 (Alibaba) and TinyLlama are under Apache 2.0; all of these were taught to\n"
            "answer.",
        .examples = {"folio fetch gpt2", "folio fetch --list", "folio fetch smollm2-135m",
                     "folio fetch HuggingFaceTB/SmolLM2-360M",
                     "folio fetch bartowski/SmolLM2-135M-Instruct-GGUF:Q8_0",
                     "folio fetch gpt2-medium --from ~/Downloads/gpt2-medium"}};
  }
};

class ModelsCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "models",
        .summary = "list the models that were fetched",
        .group = "model",
        .details =
            "Lists the models in $FOLIO_HOME/models, else ~/.cache/folio/models, by the names\n"
            "that --model takes, with their kind, the size of their files and when they were\n"
            "fetched. A download that was cut is listed as incomplete: folio fetch goes on with\n"
            "it, folio models remove removes it.",
        .examples = {"folio models", "folio models --json", "folio models remove gpt2"}};
  }
  void AddFlags(Flags&) override {}

  int Run(const Context& context) override {
    const std::vector<FetchedModel> models = FetchedModels();
    Json list = Json::array();
    std::vector<std::vector<std::string>> rows;
    uint64_t bytes = 0;
    for (const FetchedModel& model : models) {
      const std::time_t time = model.fetched_at;
      const std::string when = fmt::format("{:%Y-%m-%d %H:%M}", fmt::localtime(time));
      list.push_back({{"name", model.name},
                      {"kind", model.kind},
                      {"path", model.path.string()},
                      {"bytes", model.bytes},
                      {"fetched_at", model.fetched_at}});
      rows.push_back({model.name, model.kind, HumanBytes(model.bytes), when});
      bytes += model.bytes;
    }
    if (context.console.json()) {
      context.console.Result(Json{{"schema", 1}, {"models", std::move(list)}}.dump() + "\n");
    } else if (models.empty()) {
      context.console.Note("no models; folio fetch --list shows what can be downloaded");
    } else {
      context.console.Result(RenderTable({"model", "kind", ">size", "fetched"}, rows));
      context.console.Note(fmt::format("total {}", HumanBytes(bytes)));
    }
    return 0;
  }
};

class ModelsRemoveCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "models remove",
            .summary = "remove a model that was fetched",
            .group = "model",
            .details =
                "Removes the files of models that folio fetch downloaded, whole or in part, and\n"
                "says how much that frees. Nothing else is removed, and no run.",
            .examples = {"folio models remove gpt2-xl",
                         "folio models remove bartowski/SmolLM2-135M-Instruct-GGUF:Q8_0"}};
  }
  void AddFlags(Flags& flags) override {
    flags.Positionals("NAME", &names_, "models, as folio models lists them", {.required = true});
  }

  int Run(const Context& context) override {
    for (const std::string& name : names_) {
      const uint64_t bytes = RemoveFetchedModel(name);
      if (context.console.json()) {
        const Json json = {{"schema", 1}, {"removed", name}, {"bytes", bytes}};
        context.console.Result(json.dump() + "\n");
      } else {
        context.console.Note(fmt::format("removed {}, {} freed", name, HumanBytes(bytes)));
      }
    }
    return 0;
  }

 private:
  std::vector<std::string> names_;
};

}  // namespace

CommandList FetchCommands() {
  return CommandsOf<FetchCommand, ModelsCommand, ModelsRemoveCommand>();
}

}  // namespace folio
