#pragma once

#include "folio/backend/cpu/scratch.h"
#include "folio/backend/ops.h"

namespace folio::cpu {

// float32; the struct has been checked.
void RunLinear(const LinearForward& op);
void RunLinear(const LinearBackward& op);

// The same where x and d_out are BF16, or the weight is.
void RunLinearBf16(const LinearForward& op, Scratch& scratch);
void RunLinearBf16(const LinearBackward& op, Scratch& scratch);

}  // namespace folio::cpu
