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
  const double loss = *metrics.loss, norm = *metrics.grad_norm;
  metrics.lr = LearningRate(config, metrics.step);
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
  const ParamTable& table = weights_.table();
  if (!before_) {
    const auto before = plan_.Add("before", weights_.dtype(), {1, table.trained_size()});
    const auto squares = plan_.AddMirrored("squares", Dtype::kF64, {std::ssize(table.params())});
    plan_.Place();
    arena_ = Arena(plan_, backend_.memory());
    before_ = arena_.Get(plan_, before);
    squares_ = arena_.GetMirror(plan_, squares);
  }
  backend_.Run(ResidualForward{.x = Row(weights_.flat()), .out = before_});
}

Tensor LayerNormMeter::Row(const Tensor& flat) const {
  const int64_t size = weights_.table().trained_size();
  return flat.Slice(0, size).Reshape({1, size});
}

LayerNorms LayerNormMeter::End(const Tensor& grads) {
  const Tensor now = Row(weights_.flat());
  backend_.Run(ResidualForward{.residual = now, .x = before_, .out = before_, .factor = -1});
  const Shape flat = {now.count()};
  return {.grad = Norms(grads),
          .update = Norms(before_.Reshape(flat)),
          .weight = Norms(now.Reshape(flat))};
}

std::vector<double> LayerNormMeter::Norms(const Tensor& flat) const {
  const auto layers = static_cast<size_t>(weights_.config().n_layer) + 1;
  std::vector<double> squares(layers), shared(layers);
  const std::span<const ParamInfo> params = weights_.table().params();
  for (int64_t i = 0; i < std::ssize(params); ++i) {
    const ParamInfo& info = params[static_cast<size_t>(i)];
    if (!info.trained) continue;
    const Tensor x = weights_.table().View(info, flat);
    backend_.Run(SumOfSquares{.x = x.Reshape({x.count()}), .out = squares_.device.Slice(i, i + 1)});
  }
  squares_.Fetch();
  for (size_t i = 0; i < params.size(); ++i) {
    const ParamInfo& info = params[i];
    if (!info.trained) continue;
    (info.shared ? shared : squares)[static_cast<size_t>(info.layer + 1)] +=
        squares_.host.host<double>()[i];
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
