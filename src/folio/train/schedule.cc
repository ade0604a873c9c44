#include "folio/train/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "folio/base/strings.h"

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

std::string DescribeSchedule(const TrainConfig& config) {
  if (config.warmup_steps >= config.max_steps) {
    return fmt::format("rising to {:.3g}: the warm-up of {} steps is as long as the run",
                       LearningRate(config, std::max<int64_t>(0, config.max_steps - 1)),
                       WithCommas(config.warmup_steps));
  }
  return fmt::format("to {} in {} steps, {}", config.learning_rate, WithCommas(config.warmup_steps),
                     DescribeDecay(config));
}

std::string DescribeDecay(const TrainConfig& config) {
  if (config.schedule == "constant") return "where it stays";
  std::string text = "then";
  if (config.schedule == "wsd") {
    const double stable = config.stable_fraction * static_cast<double>(config.decay_end());
    text = fmt::format("from step {} on", WithCommas(static_cast<int64_t>(stable)));
  }
  const bool follows_clock = !config.budget.empty() && config.decay_steps == 0;
  return fmt::format(
      "{} {} down to {:.6g} at {}", text,
      config.schedule == "cosine" ? "a cosine" : "a straight line", config.min_lr,
      follows_clock ? "the end of the time" : "step " + WithCommas(config.decay_end()));
}

}  // namespace folio
