#pragma once

#include "folio/backend/cpu/linear_blocks.h"

namespace folio::cpu {

// out[n * stride + r] for `rows` rows of a weight in blocks, from `weight` on.
using BlockKernel = void (*)(const BlockedRows& x, const std::byte* weight, int64_t rows,
                             float* out, int64_t stride);

// X86TakesAnyRows says whether the kernels in use take more than LinearForward::kFewRows rows.
bool X86TakesAnyRows();

// The fastest for a weight of that dtype, and for one row of x or for several, of the instruction
// set in use; null if x86 has none for it.
BlockKernel X86BlockKernel(Dtype weight, bool one);

}  // namespace folio::cpu
