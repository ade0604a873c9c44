#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "folio/apps/commands.h"
#include "folio/apps/version.h"

namespace folio {

std::string Version() {
  return FOLIO_VERSION;
}

std::string Compiler() {
#if defined(__clang__)
  return "Clang " __clang_version__;
#else
  return "GCC " __VERSION__;
#endif
}

namespace {

class VersionCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "version", .summary = "print the version", .group = "set-up"};
  }
  void AddFlags(Flags&) override {}
  int Run(const Context& context) override {
    if (context.console.json()) {
      const nlohmann::json json = {{"schema", 1},
                                   {"version", Version()},
                                   {"compiler", Compiler()},
                                   {"build_type", FOLIO_BUILD_TYPE}};
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
