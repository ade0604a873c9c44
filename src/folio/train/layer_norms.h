#pragma once

#include <vector>

#include "folio/backend/backend.h"
#include "folio/model/params.h"

namespace folio {

// Euclidean norms of what is trained. The first is of all that lies outside of the blocks
// (embeddings, last LayerNorm, head), then one for each block.
struct LayerNorms {
  std::vector<double> grad, update, weight;  // before clipping; of the step; after the step
};

// Measures them at a step: Begin before the update, End after it. Keeps a copy of the weights.
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
