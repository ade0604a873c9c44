#include "folio/train/judged_step.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <span>

#include "folio/train/schedule.h"

namespace folio {
namespace {

// The parameter whose gradient is not finite; all ranks get the same.
std::string NonFinite(TrainStep& step) {
  std::string found = FirstNonFinite(step.weights().table(), step.Gradient());
  if (step.tensor_communicator().alone()) return found;
  for (const std::string& name : step.parallelism().group->Gather(found)) {
    if (!name.empty()) return name;
  }
  return "";
}

}  // namespace

std::string JudgeAndUpdate(TrainStep& step, const TrainConfig& config, StepHealth& health,
                           StepMetrics& metrics, LayerNormMeter* layer_norms) {
  const double loss = *metrics.loss, norm = step.Norm();
  metrics.lr = LearningRate(config, metrics.step);
  metrics.grad_norm = norm;
  if (layer_norms != nullptr) layer_norms->Begin();
  const std::optional<SkippedStep> skipped =
      health.Judge(loss, norm, config.spike_zscore, step.weights().config().vocab_size,
                   [&] { return NonFinite(step); });
  health.Count(skipped, loss, norm, config.spike_zscore);
  if (skipped) {
    metrics.skipped = skipped->reason;
    metrics.skipped_parameter = skipped->parameter;
    if (const int64_t in_a_row = health.skipped_in_a_row; in_a_row > config.max_skipped_steps) {
      return fmt::format(
          "{}: loss {:.4g}, gradient norm {:.4g}{}{}", skipped->reason, loss, norm,
          skipped->parameter.empty() ? "" : ", first in " + skipped->parameter,
          in_a_row > 1 ? fmt::format(" (the last of {} skipped in a row)", in_a_row) : "");
    }
  } else {
    step.Update(*metrics.lr, config.grad_clip, metrics.step + 1 - health.skipped, norm);
  }
  if (layer_norms != nullptr) {
    step.WaitForWeights();
    metrics.layer_norms = layer_norms->End(step.Gradient());
  }
  return "";
}

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
