#pragma once

#include "folio/dist/group.h"
#include "folio/term/console.h"

namespace folio {

// The ranks that mpirun or srun has started (dist/join.h), for a command that works on them: this
// one computes with its share of the machine's cores, and but for the first one it logs nothing. A
// rank that is lost is told. Throws as JoinGroup.
Group& JoinRanks(Console& console);

}  // namespace folio
