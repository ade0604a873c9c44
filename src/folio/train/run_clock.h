#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>

#include "folio/base/clock.h"
#include "folio/train/config.h"
#include "folio/train/schedule.h"
#include "folio/train/train_state.h"

namespace folio {

// The time of a run: how much of it is gone, whether train.max_time is over, and how many steps fit
// into train.budget.
class RunClock {
 public:
  // `now` gives seconds from anywhere; empty for SteadySeconds. The budget began at
  // `budget_began`, or begins with Begin.
  RunClock(std::function<double()> now, std::optional<double> budget_began)
      : now_(now ? std::move(now) : SteadySeconds), budget_began_(budget_began) {}

  double Now() const { return now_(); }
  // The seconds of the run, those of its earlier parts too.
  double Seconds() const { return before_ + Now() - started_; }
  void set_before(double seconds) { before_ = seconds; }

  // Training begins, or goes on, in this process. Returns the steps of the run with a budget, of
  // `worthwhile` at most, and nothing without one.
  std::optional<int64_t> Begin(const TrainConfig& config, int64_t worthwhile, TrainState& state);
  // The step that began at `began` has ended. Returns, now and then, how many steps of the budget
  // there are by this rank's clock.
  std::optional<int64_t> EndStep(double began, int64_t max_steps, TrainState& state);
  // The step that began at `began` has ended, with its sample.
  void EndTurn(double began) { longest_step_ = std::max(longest_step_, Now() - began); }
  // An evaluation that began at `began` has ended.
  void EndEvaluation(double began) { evaluation_seconds_ = Now() - began; }
  // Returns whether the next step, or batch of an evaluation, and the checkpoint after it, which
  // takes so long, might end after train.max_time: both may take half as long again as is known.
  bool OutOfTime(double checkpoint_seconds) const;

 private:
  std::function<double()> now_;
  std::optional<double> budget_began_;
  std::optional<BudgetPlan> budget_;
  double before_ = 0, started_ = 0, step_ended_ = 0;
  double max_seconds_ = 0, longest_step_ = 0, evaluation_seconds_ = 0;
};

}  // namespace folio
