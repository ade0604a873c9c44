#pragma once

#include <string>

#include "folio/dist/group.h"
#include "folio/term/console.h"

namespace folio {

// The ranks that mpirun or srun has started (dist/join.h), for a command that works on them: this
// one computes with its share of the machine's cores, and but for the first one it logs nothing. A
// rank that is lost is told. Throws as JoinGroup, and a kUsage Error where ranks run another
// `command`.
Group& JoinRanks(Console& console, const std::string& command);

// Throws a kUsage Error where ranks compute with different instruction sets: their numbers would
// not be the same.
void RequireSameSimd(Group& group);

}  // namespace folio
