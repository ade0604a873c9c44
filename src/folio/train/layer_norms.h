#pragma once

#include <vector>

#include "folio/backend/backend.h"
#include "folio/model/params.h"
#include "folio/train/run_log.h"

namespace folio {

// Measures LayerNorms at a step: Begin before the update, End after it. Keeps a copy of the
// weights.
class LayerNormMeter {
 public:
  // Both must outlive it.
  LayerNormMeter(Backend& backend, const GptWeights& weights)
      : backend_(backend), weights_(weights) {}

  void Begin();
  // `grads` is laid out as the trained part of the weights. REQUIRES: Begin.
  LayerNorms End(const Tensor& grads);

 private:
  std::vector<double> Norms(const Tensor& flat) const;

  Backend& backend_;
  const GptWeights& weights_;
  std::vector<float> before_;  // then the update
};

}  // namespace folio
