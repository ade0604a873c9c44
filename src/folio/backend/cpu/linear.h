#pragma once

#include "folio/backend/ops.h"

namespace folio::cpu {

// float32; the struct has been checked.
void RunLinear(const LinearForward& op);
void RunLinear(const LinearBackward& op);

}  // namespace folio::cpu
