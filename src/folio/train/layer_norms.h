#pragma once

#include <vector>

#include "folio/backend/backend.h"
#include "folio/dist/communicator.h"
#include "folio/model/params.h"
#include "folio/train/run_log.h"

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
  std::vector<double> Norms(const Tensor& flat) const;

  Backend& backend_;
  const GptWeights& weights_;
  Communicator parts_;
  std::vector<float> before_;  // then the update
};

}  // namespace folio
