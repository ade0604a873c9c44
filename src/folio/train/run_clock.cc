#include "folio/train/run_clock.h"

namespace folio {

std::optional<int64_t> RunClock::Begin(const TrainConfig& config, int64_t worthwhile,
                                       TrainState& state) {
  started_ = Now();
  max_seconds_ = config.max_seconds();
  if (config.budget.empty()) return {};
  if (!state.budget) state.budget = TrainState::Budget{.steps = config.max_steps};
  budget_began_ = budget_began_.value_or(started_) - state.budget->seconds;
  budget_.emplace(config.budget_seconds(), state.budget->steps, std::max(worthwhile, state.step));
  return budget_->steps();
}

std::optional<int64_t> RunClock::EndStep(double began, int64_t max_steps, TrainState& state) {
  constexpr int64_t kTimes = 200;  // about so often in a run
  if (!budget_) return {};
  const double now = Now();
  budget_->Step(step_ended_ > 0 ? began - step_ended_ : 0, now - began);
  step_ended_ = now;
  state.budget->seconds = now - *budget_began_;
  if (state.step % std::max<int64_t>(1, max_steps / kTimes) != 0) return {};
  return budget_->Correct(state.step, state.budget->seconds, evaluation_seconds_);
}

bool RunClock::OutOfTime(double checkpoint_seconds) const {
  constexpr double kMargin = 1.5;
  return Now() - started_ + kMargin * (longest_step_ + checkpoint_seconds) >= max_seconds_;
}

}  // namespace folio
