#pragma once

#include <cstdint>

#include "folio/backend/backend.h"
#include "folio/bench/memory_pass.h"

namespace folio {

struct OptimizerRates {
  // The passes of a step over all parameters beside its products: the norm of their gradients,
  // AdamW.
  MemoryPass norm, adamw;
  // The best that the machine's memory does: reading one such array, copying one to another.
  MemoryPass read, copy;

  double seconds_per_step() const;  // at the medians
  double bytes_per_step() const { return norm.bytes + adamw.bytes; }
};

// Takes turns over arrays of `parameters` float32 each: at least three rounds, and for `seconds`
// together.
OptimizerRates MeasureOptimizer(Backend& backend, int64_t parameters, double seconds);

// Bytes of the arrays: parameters, gradients and the state of the optimizer.
uint64_t OptimizerBytes(int64_t parameters);

}  // namespace folio
