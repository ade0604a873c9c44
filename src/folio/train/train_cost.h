#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "folio/base/machine.h"
#include "folio/model/config.h"
#include "folio/model/context.h"
#include "folio/model/lora.h"
#include "folio/tensor/memory_plan.h"
#include "folio/train/config.h"
#include "folio/train/optimizer.h"

namespace folio {

// The shape of one micro-batch of training, and how many make up a step.
struct TrainShape {
  const GptConfig& model;
  int64_t B = 1, T = 1;
  int64_t grad_accumulation = 1;  // of all ranks; 0: not known
  PassOptions options = {};
  int ranks = 1;
  int tensor = 1;              // of them that share the layers of the model
  int64_t reduce_every = 1;    // Parallelism'
  Dtype reduce = Dtype::kF32;  // of gradients on their way to be added up
  OptimizerSettings optimizer = {};
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
  size_t activations = 0;           // in the arena, where buffers with disjoint lives share memory
  size_t activations_unshared = 0;  // without sharing
  size_t logits = 0;                // of the activations: the loss head's chunk of rows
  size_t peak = 0;
};

// Memory that a run takes besides the buffers of its steps, in bytes.
struct MemoryBeside {
  uint64_t checkpoint = 0;  // the copy of what training changes, which is written beside it
  uint64_t merged = 0;      // layers with adapters, as a checkpoint has them
  uint64_t data = 0;        // tokens that are mapped
  uint64_t program = 0;     // the program, its tokenizer and other memory that it will use
  uint64_t before = 0;      // the peak of the process until now

  // The peak memory of a run whose steps take `steps` bytes.
  uint64_t Peak(uint64_t steps) const;
};

// This memory of a run in this process: the copy, if there will be room for it, the merged layers,
// and the memory of the process.
MemoryBeside BesideOf(const TrainShape& shape, const MachineMemory& memory);

// Bytes that training in this shape keeps; UINT64_MAX where they cannot be counted.
uint64_t PlannedBytes(const TrainShape& shape);

// The largest n in [0, most] with bytes(n) <= limit, where bytes grows with n; 0 if there is none.
int64_t LargestThatFits(const std::function<uint64_t(int64_t n)>& bytes, int64_t most,
                        uint64_t limit);

// Throws a kResource Error if training in this shape needs more than memory.total. It says which
// batch fits, how to keep the batch of a step with it, and what recomputation would do.
void RequireTrainingFits(const TrainShape& shape, const MachineMemory& memory);

// A warning if a plan is larger than what is free now, else "".
std::string MemoryWarning(uint64_t bytes, const MachineMemory& memory);

// The memory plan for people, a line for each kind; with what recomputation would save, if it is
// off.
std::string DescribePlan(const TrainShape& shape, const MemoryBeside& beside);

// The arithmetic of training as the literature counts it: the operations of the model's formulas,
// not those carried out, so that recomputation and skipped masks do not change it.
struct TrainFlops {
  TrainFlops(const GptConfig& config, int64_t T, const LoraConfig& lora = {});

  int64_t matrix_parameters = 0;   // in matrix products: the head too, no look-ups, biases or norms
  int64_t trained_parameters = 0;  // of these; all, unless the model has adapters
  double products_per_token = 0;   // for each 2 forward, 2 backward, and 2 more if it is trained
  double attention_per_token = 0;  // 12 n_layer T n_embd: scores and sums, the masked half too

  double per_token() const { return products_per_token + attention_per_token; }
  double per_step(int64_t tokens) const { return static_cast<double>(tokens) * per_token(); }
  // The formula with this model's numbers, for people.
  std::string Explanation() const;

 private:
  int64_t n_layer_, T_, q_width_;
};

// Explains flops_per_token, for programs.
inline constexpr char kFlopsFormula[] =
    "flops_per_token = 4 * matrix_parameters + 2 * trained_matrix_parameters + 12 * n_layer * "
    "context * n_embd; without adapters both are the same; matrix_parameters "
    "are the weights of all matrix products, the loss head's among them, without embedding "
    "look-ups, biases and norms; attention is counted in full (the causal half is not taken off)";

std::string HumanFlops(double flops);  // "854.7 MFLOP"

}  // namespace folio
