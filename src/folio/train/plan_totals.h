#pragma once

#include <cstddef>

#include "folio/tensor/plan.h"

namespace folio {

// What training keeps in memory by kind, in bytes: weights, gradients and moments from step to
// step, activations beside them.
struct PlanTotals {
  explicit PlanTotals(const MemoryPlan& plan);  // one of Learner::Plan

  size_t weights = 0, gradients = 0, optimizer = 0;
  size_t activations = 0;           // of the arena: buffers whose lives do not meet share memory
  size_t activations_unshared = 0;  // all of them side by side
  size_t logits = 0;                // of the activations: the loss head's chunk of rows
  size_t peak = 0;
};

}  // namespace folio
