#include "folio/cli/completion.h"
#include "folio/commands/commands.h"

namespace folio {
namespace {

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

}  // namespace

std::unique_ptr<Command> NewCompletionCommand() {
  return std::make_unique<CompletionCommand>();
}

std::unique_ptr<Command> NewCompleteCommand() {
  return std::make_unique<CompleteCommand>();
}

}  // namespace folio
