#include "folio/train/budget.h"

#include <algorithm>
#include <cmath>

namespace folio {

double WorthwhileEpochs(const TrainConfig& config) {
  return config.init.empty() ? 40 : 3;
}

int64_t WorthwhileSteps(const TrainConfig& config, int64_t T, int64_t train_tokens) {
  constexpr int64_t kFewest = 8;
  const auto step = static_cast<double>(config.batch_size * config.grad_accumulation * T);
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
