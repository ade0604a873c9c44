#pragma once

#include <string>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/model/params.h"
#include "folio/ranks/group.h"
#include "folio/tensor/memory_plan.h"
#include "folio/train/config.h"
#include "folio/train/health.h"
#include "folio/train/run_log.h"
#include "folio/train/train_step.h"

namespace folio {

// Measures LayerNorms at a step: Begin before the update, End after it. Keeps a copy of the
// weights.
class LayerNormMeter {
 public:
  // Both must outlive it, and so must the group of the communicator of a shard of a model.
  LayerNormMeter(Backend& backend, const GptWeights& weights, const Communicator& parts = {})
      : backend_(backend), weights_(weights), parts_(parts) {}

  void Begin();
  // `grads` is laid out as what is trained of the weights. The norms are the whole model's; all
  // ranks must ask. REQUIRES: Begin.
  LayerNorms End(const Tensor& grads);

 private:
  // The trained part of a flat array, as one row.
  Tensor Row(const Tensor& flat) const;
  std::vector<double> Norms(const Tensor& flat) const;

  Backend& backend_;
  const GptWeights& weights_;
  Communicator parts_;
  MemoryPlan plan_;
  Arena arena_;     // from the first step on that is measured
  Tensor before_;   // then the update
  Mirror squares_;  // the sum of each parameter
};

// Ends a step whose gradient `step` has accumulated, in the same way for runs, batches and ranks:
// judges the step by its loss and the norm of its gradient, counts it in `health`, and makes the
// update, clipped, if the step is sound. Reads step, loss and grad_norm of `metrics`; sets lr, why
// the update was skipped, if it was, and layer_norms if there is a meter. All ranks call it.
// After more than config.max_skipped_steps skipped in a row training is lost: returns the reason of
// the last, else "".
std::string JudgeAndUpdate(TrainStep& step, const TrainConfig& config, StepHealth& health,
                           StepMetrics& metrics, LayerNormMeter* layer_norms = nullptr);

}  // namespace folio
