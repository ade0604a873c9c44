#include "folio/train/health.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "folio/train/config.h"
#include "folio/train/optimizer.h"
#include "folio/train/train_step.h"

namespace folio {

void RunningMoments::Add(double value) {
  count += 1;
  const double weight = 1.0 / static_cast<double>(std::min(count, kWindow));
  const double difference = value - mean;
  const double change = weight * difference;
  mean += change;
  variance = (1 - weight) * (variance + difference * change);
}

double RunningMoments::Above(double value) const {
  constexpr int64_t kKnown = 20;
  constexpr double kNoise = 0.01;
  if (count < kKnown) return 0;
  const double rise = value - mean;
  if (rise <= kNoise * std::abs(mean)) return 0;
  return variance > 0 ? rise / std::sqrt(variance) : HUGE_VAL;
}

std::optional<SkippedStep> StepHealth::Judge(double loss_now, double grad_norm, double zscore,
                                             int64_t vocab_size,
                                             const std::function<std::string()>& non_finite) const {
  if (!std::isfinite(loss_now)) return SkippedStep{"non-finite loss", ""};
  if (!std::isfinite(grad_norm)) {
    return SkippedStep{"non-finite gradient", non_finite()};
  }
  if (BlownUp(loss_now, vocab_size)) return SkippedStep{"loss blow-up", ""};
  if (zscore <= 0) return {};
  if (loss.Above(loss_now) > zscore) return SkippedStep{"loss spike", ""};
  if (grad_norm > 0 && log_grad_norm.Above(std::log(grad_norm)) > zscore) {
    return SkippedStep{"gradient spike", ""};
  }
  return {};
}

void StepHealth::Count(const std::optional<SkippedStep>& was_skipped, double loss_now,
                       double grad_norm, double zscore) {
  if (was_skipped) {
    skipped += 1;
    skipped_in_a_row += 1;
    return;
  }
  skipped_in_a_row = 0;
  if (first_loss <= 0) first_loss = loss_now;
  if (zscore <= 0) return;
  loss.Add(loss_now);
  if (grad_norm > 0) log_grad_norm.Add(std::log(grad_norm));
}

bool StepHealth::BlownUp(double loss_now, int64_t vocab_size) const {
  constexpr double kTimes = 10;
  if (!std::isfinite(loss_now)) return true;
  const double guessing = std::log(static_cast<double>(vocab_size));
  return first_loss > 0 && loss_now > kTimes * std::max(guessing, first_loss);
}

std::string UpdateIfSound(TrainStep& step, const TrainConfig& config, int64_t vocab_size,
                          const std::function<std::string()>& non_finite, StepHealth& health,
                          StepMetrics& metrics) {
  const double loss = *metrics.loss, norm = *metrics.grad_norm;
  const auto skipped = health.Judge(loss, norm, config.spike_zscore, vocab_size, non_finite);
  health.Count(skipped, loss, norm, config.spike_zscore);
  if (!skipped) {
    step.Update(OptimizerSettingsOf(config), *metrics.lr, config.grad_clip,
                metrics.step + 1 - health.skipped, norm);
    return "";
  }
  metrics.skipped = skipped->reason;
  metrics.skipped_parameter = skipped->parameter;
  const int64_t in_a_row = health.skipped_in_a_row;
  if (in_a_row <= config.max_skipped_steps) return "";
  return fmt::format(
      "{}: loss {:.4g}, gradient norm {:.4g}{}{}", skipped->reason, loss, norm,
      skipped->parameter.empty() ? "" : ", first in " + skipped->parameter,
      in_a_row > 1 ? fmt::format(" (the last of {} skipped in a row)", in_a_row) : "");
}

std::string FirstNonFinite(const ParamTable& table, const Tensor& grads) {
  for (size_t i = table.params().size(); i-- > 0;) {
    const ParamInfo& info = table.params()[i];
    if (!info.trained) continue;
    const Tensor grad = table.View(info, grads);
    const std::span elements(grad.data<float>(), static_cast<size_t>(grad.count()));
    if (!std::ranges::all_of(elements, [](float g) { return std::isfinite(g); })) return info.name;
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
