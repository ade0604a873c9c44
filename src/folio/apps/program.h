#pragma once

#include <string>
#include <vector>

#include "folio/apps/command.h"

namespace folio {

// The whole program: parses, runs the command, reports what goes wrong. Returns the exit status.
int RunProgram(const std::vector<std::string>& arguments);

}  // namespace folio
