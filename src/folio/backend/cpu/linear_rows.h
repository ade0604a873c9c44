#pragma once

#include "folio/backend/cpu/scratch.h"
#include "folio/backend/ops.h"

namespace folio::cpu {

// Whether RunLinearRows is for it: at most LinearForward::kFewRows rows of float32, nothing added
// to what is there.
bool HasFewRows(const LinearForward& op);

// Products of a few rows, as decoding needs them: the weight is read once, in the order in which it
// lies, at the speed of memory. Each sum is made in one order that neither the number of rows nor
// that of threads changes. REQUIRES: HasFewRows(op), the struct has been checked.
void RunLinearRows(const LinearForward& op, Scratch& scratch);

}  // namespace folio::cpu
