#include "folio/bench/machine_report.h"
#include "folio/cli/version.h"
#include "folio/commands/commands.h"
#include "folio/serve/sandbox.h"

namespace folio {
namespace {

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

}  // namespace

std::unique_ptr<Command> NewDoctorCommand() {
  return std::make_unique<DoctorCommand>();
}

}  // namespace folio
