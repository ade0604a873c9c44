#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "folio/model/context.h"
#include "folio/model/gpt.h"
#include "folio/model/tensor_parallel_group.h"
#include "folio/tensor/memory_plan.h"
#include "folio/train/buckets.h"
#include "folio/train/gradient_sum.h"
#include "folio/train/optimizer.h"

namespace folio {

// The arithmetic of a training step, without data, schedule or files:
//   Begin(); Accumulate(...) once for each micro-batch of this rank; Finish(...).
// Where operations are begun and done later, nothing waits for them before Losses and Norm.
// The gradient is that of the one big batch that the micro-batches of all ranks make up.
class TrainStep : private LayerGate {
 public:
  // `backend`, `weights` and the group must outlive it. Every micro-batch has B sequences of T
  // tokens. Trained parameters (ParamRow::trained) have gradients and optimizer state, both of the
  // weights' dtype. Adapters and shard are the weights'. REQUIRES: the weights' dtype is
  // options.number(), and F32 for several ranks. All ranks have the same weights, or rank r has
  // shard r % parallelism.tensor of them; then ranks with the same r / parallelism.tensor see the
  // same micro-batches.
  TrainStep(Backend& backend, GptWeights& weights, int64_t B, int64_t T,
            const PassOptions& options = {}, const Parallelism& parallelism = {},
            const OptimizerSettings& optimizer = {});
  TrainStep(const TrainStep&) = delete;

  // The plan of all memory that training in this shape keeps, for the model or a shard of it.
  // Allocates nothing.
  static MemoryPlan Plan(const GptConfig& config, int64_t B, int64_t T,
                         const PassOptions& options = {},
                         const PlannedParallelism& parallelism = {},
                         const OptimizerSettings& optimizer = {});

  // The gradient is zero from here on.
  void Begin();

  // Adds the gradient of scale * (sum of the losses of these targets). inputs and targets are
  // (B*T); dropout.on applies the configuration's rates; `begins` is of GptPass::set_begins.
  void Accumulate(std::span<const int32_t> inputs, std::span<const int32_t> targets, double scale,
                  DropoutContext dropout, std::span<const int32_t> begins = {});
  // The sums of the losses of each micro-batch since Begin, in nats; valid until the next one.
  std::span<const double> Losses();

  // The norm of the gradient of all micro-batches and of all shards. All ranks get the same.
  double Norm();
  // Makes one step of the optimizer with the gradient, of this norm, clipped. `step` counts from 1.
  void Update(double lr, double clip, int64_t step, double norm);
  // Calls Norm and Update; returns the norm.
  double Finish(double lr, double clip, int64_t step);

  // Must be called after anything but Update has changed the weights.
  void WeightsChanged() { low_is_current_ = false; }
  // Waits for the weights that other ranks have updated. Must be called before anything but a pass
  // of this step reads them.
  void WaitForWeights();
  // The whole gradient, laid out like the trained parameters; all ranks must call it, after Norm.
  const Tensor& Gradient();

  // The parameter whose gradient lies at `at`; "" if none does.
  std::string GradientAt(const std::byte* at) const { return sum_.NameAt(at, weights_.table()); }

  GptPass& pass() { return pass_; }
  // The weights for its passes: matrices in BF16 where BackendPreferences::low_weights says so.
  const GptParams& params() const { return low_ ? low_params_ : weights_.params(); }
  const GptWeights& weights() const { return weights_; }
  // Its state is of this rank's pieces.
  const Optimizer& optimizer() const { return optimizer_; }
  const Parallelism& parallelism() const { return sum_.parallelism(); }
  // The ranks that share the data, and those that share the layers of this model.
  const Communicator& data_communicator() const { return data_; }
  const Communicator& tensor_communicator() const { return tensor_.communicator(); }
  // The gradient of one rank alone, as far as it is accumulated.
  const Tensor& grads() const { return sum_.sum(); }

 private:
  void BindLowWeights();
  void BeforeForward(int64_t layer) override;
  void BeforeBackward(int64_t layer) override { sum_.BeforeBlock(layer); }
  void AfterBackward(int64_t layer) override { sum_.AfterLayer(layer); }

  Backend& backend_;
  GptWeights& weights_;
  Communicator data_;
  TensorParallelGroup tensor_;
  Shards shards_;
  GptPass pass_;
  GradientSum sum_;
  Optimizer optimizer_;
  std::optional<WeightGather> gather_;
  std::optional<GptWeights> whole_gradient_;
  std::optional<GptWeights> low_;  // the weights in BF16
  GptParams low_params_;           // matrices of low_, and the rest of the weights
  bool low_is_current_ = false;
  MemoryPlan sums_plan_;
  Arena sums_arena_;
  int64_t accumulated_ = 0, known_ = 0;  // micro-batches, and those whose losses are on the host
  Mirror sums_;                          // the losses of each micro-batch, and all squares
  Mirror block_sums_;                    // of squares
  std::vector<double> all_block_sums_;   // of all ranks, by rank
  // Places in all_block_sums_, in the order of the flat array: of parameters that this shard has
  // alone, and of those that all shards have.
  std::vector<size_t> block_order_, shared_blocks_;
};

// Bytes of TrainStep::Plan without recomputation and with it.
struct RecomputeBytes {
  size_t without = 0, with = 0;

  int64_t saved() const { return static_cast<int64_t>(without) - static_cast<int64_t>(with); }
};
RecomputeBytes CompareRecompute(const GptConfig& config, int64_t B, int64_t T, PassOptions options);

}  // namespace folio
