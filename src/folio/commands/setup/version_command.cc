#include <fmt/format.h>

#include "folio/cli/version.h"
#include "folio/commands/commands.h"
#include "folio/io/json.h"

namespace folio {

namespace {

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

std::unique_ptr<Command> NewVersionCommand() {
  return std::make_unique<VersionCommand>();
}

}  // namespace folio
