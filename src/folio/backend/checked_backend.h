#pragma once

#include <memory>

#include "folio/backend/backend.h"

namespace folio {

// Runs every operation on `fast` and beside it, on copies, on `trusted` (which must support F64).
// The first operation whose result is further off than rounding explains (see comparison.h) throws
// a kRuntime Error that names operation, operand, element and both values. Slow.
std::unique_ptr<Backend> MakeCheckedBackend(std::unique_ptr<Backend> fast,
                                            std::unique_ptr<Backend> trusted);

}  // namespace folio
