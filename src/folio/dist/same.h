#pragma once

#include <string>

#include "folio/dist/group.h"

namespace folio {

// Throws a kUsage Error unless all ranks say the same: it names the first rank that says something
// else than the first one, and the lines that differ. `what` is "settings"; all ranks call it.
void RequireSame(Group& group, const std::string& what, const std::string& lines);

}  // namespace folio
