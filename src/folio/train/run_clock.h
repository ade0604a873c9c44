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

// The time of a run: how much has passed, whether train.max_time is over, and how many steps fit
// into train.budget.
class RunClock {
 public:
  // `now` returns seconds since any fixed time; SteadySeconds if it is empty. The budget began at
  // `budget_began`, or begins with Begin.
  RunClock(std::function<double()> now, std::optional<double> budget_began)
      : now_(now ? std::move(now) : SteadySeconds), budget_began_(budget_began) {}

  double Now() const { return now_(); }
  // The seconds of the run, including those before it was resumed.
  double Seconds() const { return before_ + Now() - started_; }
  void set_before(double seconds) { before_ = seconds; }

  // Training begins, or continues, in this process. Returns the number of steps of a run with a
  // budget, at most `worthwhile`, and nothing without one.
  std::optional<int64_t> Begin(const TrainConfig& config, int64_t worthwhile, TrainState& state);
  // The step that began at `began` has ended. Returns, after some steps, how many steps the budget
  // has by this rank's clock.
  std::optional<int64_t> EndStep(double began, int64_t max_steps, TrainState& state);
  // The step that began at `began` has ended, with its sample.
  void EndTurn(double began) { longest_step_ = std::max(longest_step_, Now() - began); }
  // An evaluation that began at `began` has ended.
  void EndEvaluation(double began) { evaluation_seconds_ = Now() - began; }
  // Returns true if the next step, or batch of an evaluation, and a checkpoint of so many seconds
  // might end after train.max_time: both may take half as long again as measured.
  bool OutOfTime(double checkpoint_seconds) const;

 private:
  std::function<double()> now_;
  std::optional<double> budget_began_;
  std::optional<BudgetPlan> budget_;
  double before_ = 0, started_ = 0, step_ended_ = 0;
  double max_seconds_ = 0, longest_step_ = 0, evaluation_seconds_ = 0;
};

}  // namespace folio
