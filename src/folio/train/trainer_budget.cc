// How a Trainer keeps to a budget of time.

#include <algorithm>
#include <string>

#include "folio/dist/broadcast.h"
#include "folio/train/trainer.h"

namespace folio {

void Trainer::BeginBudget() {
  if (config_.budget.empty()) return;
  if (!state_.budget) state_.budget = TrainState::Budget{.steps = config_.max_steps};
  budget_began_ = hooks_.budget_began.value_or(Clock()) - state_.budget->seconds;
  budget_.emplace(config_.budget_seconds(), state_.budget->steps,
                  std::max(worthwhile_steps_, state_.step));
  config_.max_steps = state_.budget->steps = budget_->steps();
  if (ranks_.first() && hooks_.on_plan) hooks_.on_plan(config_.max_steps);
}

// Corrects how many steps there will be. The first rank's clock decides, for all at the same step.
void Trainer::FollowClock(double step_began) {
  constexpr int64_t kTimes = 200;  // about so often in a run
  if (!budget_) return;
  const double now = Clock();
  budget_->Step(step_ended_ > 0 ? step_began - step_ended_ : 0, now - step_began);
  step_ended_ = now;
  state_.budget->seconds = now - budget_began_;
  if (state_.step % std::max<int64_t>(1, config_.max_steps / kTimes) != 0) return;
  int64_t steps = budget_->Correct(state_.step, state_.budget->seconds, evaluation_seconds_);
  steps = std::stoll(Broadcast(ranks_.group(), std::to_string(steps)));
  if (steps == config_.max_steps) return;
  config_.max_steps = state_.budget->steps = steps;
  if (ranks_.first() && hooks_.on_plan) hooks_.on_plan(steps);
}

}  // namespace folio
