#pragma once

#include <cstdint>

#include "folio/backend/ops.h"
#include "folio/base/rng.h"

namespace folio::reference {

// Dropout multiplies element (row, column) of an array of `width` columns with DropoutFactor.
inline double DropoutFactor(const Dropout& dropout, int64_t row, int64_t column, int64_t width) {
  if (!dropout.active()) return 1;
  const int64_t index = dropout.Index(row, column, width);
  const CounterRng rng(dropout.seed, dropout.stream);
  return rng.Bits(static_cast<uint64_t>(index)) < dropout.threshold() ? 0 : dropout.scale();
}

}  // namespace folio::reference
