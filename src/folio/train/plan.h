#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "folio/base/machine.h"
#include "folio/model/config.h"
#include "folio/model/context.h"
#include "folio/tensor/plan.h"
#include "folio/train/config.h"

namespace folio {

// The shape of one micro-batch of training, and how many make up a step.
struct TrainShape {
  const GptConfig& model;
  int64_t B = 1, T = 1;
  int64_t grad_accumulation = 1;  // of all ranks; 0: whoever asks knows no such thing
  PassOptions options = {};
  int ranks = 1;
  int tensor = 1;              // of them that share the layers of the model
  int64_t reduce_every = 1;    // Parallelism'
  Dtype reduce = Dtype::kF32;  // of gradients on their way to be added up
};

// The shape of these settings with sequences of T tokens, on so many ranks.
TrainShape ShapeOf(const GptConfig& model, const TrainConfig& train, int64_t T,
                   const PassOptions& options, int ranks = 1);

// The memory that training in this shape keeps on the first of its ranks, or on the first of those
// that have the largest shard of the model.
MemoryPlan PlanOf(const TrainShape& shape);

// The memory of training by kind, in bytes: weights, gradients and optimizer state from step to
// step, activations beside them.
struct PlanTotals {
  explicit PlanTotals(const MemoryPlan& plan);  // one of TrainStep::Plan

  size_t weights = 0, gradients = 0, optimizer = 0;
  size_t activations = 0;           // of the arena: buffers whose lives do not meet share memory
  size_t activations_unshared = 0;  // all of them side by side
  size_t logits = 0;                // of the activations: the loss head's chunk of rows
  size_t peak = 0;
};

// Bytes that training in this shape keeps; UINT64_MAX where they cannot be counted.
uint64_t PlannedBytes(const TrainShape& shape);

// The largest n in [0, most] with bytes(n) <= limit, where bytes grows with n; 0 if there is none.
int64_t LargestThatFits(const std::function<uint64_t(int64_t n)>& bytes, int64_t most,
                        uint64_t limit);

// Throws a kResource Error if training in this shape needs more than memory.total. It says which
// batch fits, how to keep the batch of a step with it, and what recomputation would do.
void RequireTrainingFits(const TrainShape& shape, const MachineMemory& memory);

// Warns of a plan that is larger than what is free now; "" for others.
std::string MemoryWarning(uint64_t bytes, const MachineMemory& memory);

// The memory plan for people, a line for each kind; with what recomputation would save, if it is
// off.
std::string DescribePlan(const TrainShape& shape);

}  // namespace folio
