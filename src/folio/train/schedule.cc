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
    return fmt::format("rising to {:.3g}: the warm-up of {} steps is longer than the run",
                       LearningRate(config, std::max<int64_t>(0, config.max_steps - 1)),
                       WithCommas(config.warmup_steps));
  }
  return fmt::format("{} after {} warm-up steps, {}", config.learning_rate,
                     WithCommas(config.warmup_steps), DescribeDecay(config));
}

std::string DescribeDecay(const TrainConfig& config) {
  if (config.schedule == "constant") return "then constant";
  std::string text = "then";
  if (config.schedule == "wsd") {
    const double stable = config.stable_fraction * static_cast<double>(config.decay_end());
    text = fmt::format("from step {} on", WithCommas(static_cast<int64_t>(stable)));
  }
  const bool follows_clock = !config.budget.empty() && config.decay_steps == 0;
  return fmt::format(
      "{} {} decay to {:.6g} at {}", text, config.schedule == "cosine" ? "cosine" : "linear",
      config.min_lr,
      follows_clock ? "the end of the budget" : "step " + WithCommas(config.decay_end()));
}

double WorthwhileEpochs(const TrainConfig& config) {
  if (config.epochs > 0) return config.epochs;
  return config.init.empty() ? 40 : 3;
}

int64_t WorthwhileSteps(const TrainConfig& config, int64_t train_tokens) {
  constexpr int64_t kFewest = 8;
  const auto step = static_cast<double>(config.tokens_per_step());
  return std::max(
      kFewest, static_cast<int64_t>(
                   std::ceil(WorthwhileEpochs(config) * static_cast<double>(train_tokens) / step)));
}

BudgetPlan::BudgetPlan(double seconds, int64_t steps, int64_t most)
    : seconds_(seconds), steps_(std::min(steps, most)), most_(most) {}

void BudgetPlan::Step(double pause, double seconds) {
  constexpr double kMemory = 0.05;    // of the budget
  constexpr double kLongPause = 0.5;  // of a step: shorter ones are part of it
  const double pause_steps = recent_seconds_ > 0 ? pause * recent_steps_ / recent_seconds_ : 0;
  if (pause_steps > kLongPause) {
    paused_ += pause_steps;
    pause_of_step_ = paused_ / seen_;
  } else {
    seconds += pause;
  }
  const double kept = std::exp(-(pause + seconds) / (kMemory * seconds_));
  recent_steps_ = kept * recent_steps_ + 1;
  recent_seconds_ = kept * recent_seconds_ + seconds;
  seen_ += 1;
  spent_ += seconds;
}

int64_t BudgetPlan::Correct(int64_t done, double gone, double to_end) {
  constexpr double kKnown = 0.02;  // of the budget: what was planned stands until then
  constexpr double kGain = 0.01;
  const double left = seconds_ - gone - to_end;
  if (spent_ < kKnown * seconds_) return steps_;
  const double more = std::max(0.0, left) * recent_steps_ / recent_seconds_ / (1 + pause_of_step_);
  const int64_t steps =
      static_cast<int64_t>(std::min(static_cast<double>(most_), static_cast<double>(done) + more));
  const auto change = static_cast<double>(std::abs(steps - steps_));
  if (steps <= done || change > kGain * static_cast<double>(steps_)) {
    steps_ = std::max(done, steps);
  }
  return steps_;
}

}  // namespace folio
