#pragma once

#include <string>

#include "folio/backend/cpu/matmul.h"

namespace folio::cpu {

// oneDNN keeps the instruction set of its first product for the life of the process. It is given
// the target in use then; it serves that one from then on, and those that it cannot tell from it
// (all with AVX-512). Below SSE4, the least that it knows, it serves none but the machine's best.

// The whole product on the calling thread; false, with nothing done, for a target that oneDNN does
// not serve. REQUIRES: called from within a ParallelFor.
bool OneDnnProduct(const MatMulArgs& args);

// Name and version, and the target that it serves where that is not the one in use.
std::string OneDnnDescription();

}  // namespace folio::cpu
