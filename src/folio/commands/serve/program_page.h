#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "folio/cli/program.h"
#include "folio/serve/service.h"

namespace folio {

// The page of this program, with the runs in these directories.
inline PageOptions ProgramPage(std::vector<std::filesystem::path> runs) {
  return {.version = Version(),
          .build = fmt::format("{}, {}", BuildType(), Compiler()),
          .runs = std::move(runs)};
}

}  // namespace folio
