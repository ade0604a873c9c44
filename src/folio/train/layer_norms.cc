#include "folio/train/layer_norms.h"

#include <cmath>
#include <span>

namespace folio {

void LayerNormMeter::Begin() {
  const auto size = static_cast<size_t>(weights_.table().trained_size());
  const std::span<const float> now(weights_.flat().data<float>(), size);
  before_.assign(now.begin(), now.end());
}

LayerNorms LayerNormMeter::End(const Tensor& grads) {
  const float* now = weights_.flat().data<float>();
  for (size_t i = 0; i < before_.size(); ++i) before_[i] = now[i] - before_[i];
  const auto size = static_cast<int64_t>(before_.size());
  return {.grad = Norms(grads),
          .update = Norms(Tensor(before_.data(), {size})),
          .weight = Norms(weights_.flat().Slice(0, size))};
}

std::vector<double> LayerNormMeter::Norms(const Tensor& flat) const {
  const auto layers = static_cast<size_t>(weights_.config().n_layer) + 1;
  std::vector<double> squares(layers), shared(layers);
  for (const ParamInfo& info : weights_.table().params()) {
    if (!info.trained) continue;
    const Tensor x = weights_.table().View(info, flat);
    double sum = 0;
    backend_.Run(SumOfSquares{.x = x.Reshape({x.count()}), .out = Tensor(&sum, {1})});
    (info.shared ? shared : squares)[static_cast<size_t>(info.layer + 1)] += sum;
  }
  // Parameters that all shards have count once.
  std::vector<double> norms = shared;
  for (const std::vector<double>& part : parts_.GatherNumbers(squares)) {
    for (size_t layer = 0; layer < layers; ++layer) norms[layer] += part[layer];
  }
  for (double& norm : norms) norm = std::sqrt(norm);
  return norms;
}

}  // namespace folio
