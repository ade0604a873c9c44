#include "folio/commands/serve/program_page.h"

#include <fmt/format.h>

#include <utility>

#include "folio/cli/program.h"

namespace folio {

PageOptions ProgramPage(std::vector<std::filesystem::path> runs) {
  return {.version = Version(),
          .build = fmt::format("{}, {}", BuildType(), Compiler()),
          .runs = std::move(runs)};
}

}  // namespace folio
