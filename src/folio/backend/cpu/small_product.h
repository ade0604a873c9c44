#pragma once

#include "folio/backend/cpu/matmul.h"

namespace folio::cpu {

// The whole product on the calling thread, for operands that fit in the second-level cache: rows
// that are contiguous are read where they lie, so that little is paid before the first
// multiply-add. Every element of C is a sum in the order of K, whatever part of C a call covers.
// With beta 0, C is not read. C may not overlap A or B. SmallProduct needs nothing of the thread:
// signals may arrive, and OpenMP is not used. REQUIRES: M, N, K >= 1.
void SmallProduct(const MatMulArgs& args);

}  // namespace folio::cpu
