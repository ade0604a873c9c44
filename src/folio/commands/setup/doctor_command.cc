#include "folio/bench/machine_report.h"
#include "folio/cli/version.h"
#include "folio/commands/commands.h"

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
    context.console.Result(DescribeMachine(Version(), Compiler(), context.console.json()));
    return 0;
  }
};

}  // namespace

std::unique_ptr<Command> NewDoctorCommand() {
  return std::make_unique<DoctorCommand>();
}

}  // namespace folio
