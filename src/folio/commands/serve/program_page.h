#pragma once

#include <filesystem>
#include <vector>

#include "folio/serve/service.h"

namespace folio {

// The page of this program, with the runs in some directories.
PageOptions ProgramPage(std::vector<std::filesystem::path> runs);

}  // namespace folio
