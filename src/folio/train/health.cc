#include "folio/train/health.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "folio/tensor/memory_plan.h"

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

std::string FirstNonFinite(const ParamTable& table, const Tensor& grads) {
  for (size_t i = table.params().size(); i-- > 0;) {
    const ParamInfo& info = table.params()[i];
    if (!info.trained) continue;
    const HostCopy grad(table.View(info, grads));
    const auto finite = [](float g) { return std::isfinite(g); };
    if (!std::ranges::all_of(grad.elements<float>(), finite)) return info.name;
  }
  return "";
}

}  // namespace folio
