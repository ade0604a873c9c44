#pragma once

#include <string>

#include "folio/dist/group.h"

namespace folio {

// Throws a kUsage Error unless all ranks say the same: it names the first rank that says something
// else than the first one, and the lines that differ, and has this help. `what` is "settings"; all
// ranks call it.
void RequireSame(
    Group& group, const std::string& what, const std::string& lines,
    const std::string& help = "start all ranks with the same program, command line and files");

}  // namespace folio
