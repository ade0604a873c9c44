#include "folio/base/strings.h"
#include "folio/cli/help.h"
#include "folio/commands/commands.h"

namespace folio {
namespace {

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
    const CommandLine& line = context.command_line;
    const Terminal& terminal = context.console.out();
    const std::string name = Join(words_, " ");
    if (name.empty()) {
      context.console.Result(FullProgramHelp(line, terminal));
    } else if (const CommandEntry* entry = line.Find(name)) {
      context.console.Result(CommandHelp(line, *entry, /*full=*/true, terminal));
    } else if (line.HasGroup(name)) {
      context.console.Result(GroupHelp(line, name, terminal));
    } else {
      line.ThrowUnknownCommand(name);
    }
    return 0;
  }

 private:
  std::vector<std::string> words_;
};

}  // namespace

std::unique_ptr<Command> NewHelpCommand() {
  return std::make_unique<HelpCommand>();
}

}  // namespace folio
