#pragma once

#include <memory>
#include <string>
#include <vector>

#include "folio/cli/command.h"

namespace folio {

// The whole program: parses, runs one of the `commands`, reports what goes wrong. Returns the exit
// status.
int RunProgram(const std::vector<std::string>& arguments,
               std::vector<std::unique_ptr<Command>> (*commands)());

}  // namespace folio
