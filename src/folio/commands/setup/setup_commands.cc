#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/bench/machine_report.h"
#include "folio/cli/command_line.h"
#include "folio/cli/program.h"
#include "folio/commands/commands.h"
#include "folio/commands/fetch_command.h"
#include "folio/commands/model_flags.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/run/fetch_model.h"
#include "folio/run/fine_tuning.h"
#include "folio/run/run_config.h"
#include "folio/serve/sandbox.h"

namespace folio {
namespace {

class FetchCommand final : public FetchPublishedCommand {
 public:
  FetchCommand() : FetchPublishedCommand(PublishedModelSets(), "folio generate --model") {}

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
};

class ConfigShowCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "config show",
        .summary = "print all settings, and where each comes from",
        .group = "model",
        .details =
            "Settings come, strongest first, from flags, --set, FOLIO_* environment variables,\n"
            "--config FILE (else the nearest folio.toml above the current directory, then\n"
            "$XDG_CONFIG_HOME/folio/config.toml), the preset, and folio itself.",
        .examples = {"folio config show --preset char-cpu --origin",
                     "folio config show --preset gpt2 > folio.toml"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Switch("--origin", &origin_, "say where each value comes from");
    AddPresetFlag(flags, &preset_);
    flags.Settings(&settings_.layers, {"train", "data", "log"});
  }

  int Run(const Context& context) override {
    settings_.UsePreset(preset_);
    settings_.layers.ReadSources(context.sources);
    settings_.Resolve();
    // A run takes these over from the model that it begins with.
    const TrainConfig& train = settings_.config.train;
    if (!train.init.empty()) {
      UseInitialModel(settings_, FindModel(train.init, Loading::kMap, train.init_adapter));
    }
    Console& console = context.console;
    console.Result(console.json() ? AsJson()
                   : origin_      ? WithOrigins(console.out())
                                  : settings_.layers.ToToml());
    return 0;
  }

 private:
  std::string AsJson() const {
    Json all = Json::object();
    for (const Field& field : settings_.layers.fields()) {
      all[field.key] = {{"value", Value(field)}, {"origin", settings_.layers.origin(field.key)}};
    }
    return Json{{"schema", 1}, {"settings", all}}.dump(2) + "\n";
  }

  static Json Value(const Field& field) {
    const std::string text = FieldText(field);
    if (std::holds_alternative<std::string*>(field.value)) return text;
    return ParseJson(text, field.key);
  }

  std::string WithOrigins(const Terminal& terminal) const {
    size_t left = 0;
    for (const Field& field : settings_.layers.fields()) {
      left = std::max(left, field.key.size() + 3 + FieldText(field).size());
    }
    std::string text;
    for (const Field& field : settings_.layers.fields()) {
      const std::string setting = fmt::format("{} = {}", field.key, FieldText(field));
      const bool built_in = settings_.layers.layer(field.key) == Layer::kBuiltIn;
      const std::string& origin = settings_.layers.origin(field.key);
      text += fmt::format("{:<{}}  {}\n", setting, left,
                          built_in ? Styled(terminal, Style::kDim, origin) : origin);
    }
    return text;
  }

  bool origin_ = false;
  std::string preset_;
  RunSettings settings_;
};

class DoctorCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "doctor",
            .summary = "show what this machine offers, and what will be a problem",
            .group = "set-up"};
  }

  void AddFlags(Flags&) override {}

  int Run(const Context& context) override {
    const Sandbox sandbox = FindSandbox();
    context.console.Result(DescribeMachine({.version = Version(),
                                            .compiler = Compiler(),
                                            .sandbox = DescribeSandbox(sandbox),
                                            .landlock = sandbox.landlock,
                                            .seccomp = sandbox.seccomp},
                                           context.console.json()));
    return 0;
  }
};

class CompletionCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "completion",
            .summary = "print a script that completes folio's commands in a shell",
            .group = "set-up",
            .details = "Source the script where the shell starts.",
            .examples = {"source <(folio completion bash)      # in ~/.bashrc",
                         "source <(folio completion zsh)       # in ~/.zshrc",
                         "folio completion fish | source       # in ~/.config/fish/config.fish"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positional(Field{"SHELL", &shell_, "the shell"}.Choices({"bash", "zsh", "fish"}),
                     {.required = true});
  }

  int Run(const Context& context) override {
    context.console.Result(CompletionScript(shell_));
    return 0;
  }

 private:
  std::string shell_;
};

// The scripts call this command: it prints a candidate in each line, a tab, and what it is.
class CompleteCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "__complete", .summary = "list what may come next", .group = ""};
  }

  void AddFlags(Flags& flags) override {
    flags.Positionals("WORD", &words_, "the command line after folio, up to the cursor");
  }

  int Run(const Context& context) override {
    std::string text;
    for (const Completion& candidate : Complete(context.command_line, words_)) {
      text += candidate.word + (candidate.help.empty() ? "" : "\t" + candidate.help) + "\n";
    }
    context.console.Result(text);
    return 0;
  }

 private:
  std::vector<std::string> words_;
};

class HelpCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "help",
            .summary = "explain a command",
            .group = "set-up",
            .examples = {"folio help data prepare"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positionals("COMMAND", &words_, "the command to explain; all of them if left out");
  }

  int Run(const Context& context) override {
    context.console.Result(
        Help(context.command_line, Join(words_, " "), /*full=*/true, context.console.out()));
    return 0;
  }

 private:
  std::vector<std::string> words_;
};

class VersionCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "version", .summary = "print the version", .group = "set-up"};
  }
  void AddFlags(Flags&) override {}
  int Run(const Context& context) override {
    if (context.console.json()) {
      const Json json = {{"build_type", BuildType()},
                         {"compiler", Compiler()},
                         {"schema", 1},
                         {"version", Version()}};
      context.console.Result(json.dump() + "\n");
    } else {
      context.console.Result(fmt::format("folio {}\n", Version()));
    }
    return 0;
  }
};

}  // namespace

CommandList FetchCommands() {
  return CommandsOf<FetchCommand>();
}

CommandList ConfigCommands() {
  return CommandsOf<ConfigShowCommand>();
}

CommandList SetUpCommands() {
  return CommandsOf<DoctorCommand, CompletionCommand, HelpCommand, VersionCommand,
                    CompleteCommand>();
}

}  // namespace folio
