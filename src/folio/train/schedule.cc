#include "folio/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace folio {

double LearningRate(const TrainConfig& config, int64_t step) {
  const double high = config.learning_rate, low = config.min_lr;
  if (step < config.warmup_steps) {
    return high * static_cast<double>(step + 1) / static_cast<double>(config.warmup_steps + 1);
  }
  if (config.schedule == "constant") return high;
  const double end = static_cast<double>(config.decay_end());
  double start = static_cast<double>(config.warmup_steps);
  if (config.schedule == "wsd") start = std::max(start, config.stable_fraction * end);
  const double at = static_cast<double>(step);
  if (at >= end) return low;
  if (at <= start) return high;
  const double done = (at - start) / (end - start);
  const double left =
      config.schedule == "cosine" ? 0.5 * (1 + std::cos(std::numbers::pi * done)) : 1 - done;
  return low + left * (high - low);
}

}  // namespace folio
