#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "folio/backend/backend.h"

namespace folio {

// One pass over memory.
struct MemoryPass {
  std::string name;
  double bytes = 0;                  // read and written by one run
  std::vector<double> seconds = {};  // of each run

  double bytes_per_second() const;  // at the median
};

struct OptimizerRates {
  // What a step does to all parameters beside its products: the norm of their gradients, AdamW.
  MemoryPass norm, adamw;
  // What the machine's memory does at best: reading one such array, copying one to another.
  MemoryPass read, copy;

  double seconds_per_step() const;  // at the medians
  double bytes_per_step() const { return norm.bytes + adamw.bytes; }
};

// Takes turns over arrays of `parameters` float32 each: at least three rounds, and for `seconds`
// together.
OptimizerRates MeasureOptimizer(Backend& backend, int64_t parameters, double seconds);

// Bytes of the arrays: parameters, gradients and two moments.
uint64_t OptimizerBytes(int64_t parameters);

}  // namespace folio
