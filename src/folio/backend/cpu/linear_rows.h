#pragma once

#include "folio/backend/cpu/scratch.h"
#include "folio/backend/ops.h"

namespace folio::cpu {

// RunsByRows says whether RunLinearRows is for `op`: its rows are of float32, it adds nothing to
// what is there, and it has at most LinearForward::kFewRows of them; or any number where the
// processor's dot products of bfloat16 numbers, or of integers, are faster with the weight as it
// lies than products of many rows are.
bool RunsByRows(const LinearForward& op);

// Products of a few rows, as decoding needs them: the weight is read once, in the order in which it
// lies, at the speed of memory. Each sum is made in one order that neither the number of rows nor
// that of threads changes. REQUIRES: RunsByRows(op), the struct has been checked.
void RunLinearRows(const LinearForward& op, Scratch& scratch);

// x (N,I) rounded to BF16 or Q8_0, in `to`, which is returned.
const float* RoundedRows(const Tensor& x, Dtype as, float* to);

}  // namespace folio::cpu
