#pragma once

#include <cstdint>

#include "folio/train/config.h"

namespace folio {

// How often a text is worth reading: one that new parameters have read so often teaches them
// nothing more, and a model that has read much before learns it by heart soon after.
double WorthwhileEpochs(const TrainConfig& config);

// How many steps of training a run with a budget (train.budget) makes at most, on so many tokens.
int64_t WorthwhileSteps(const TrainConfig& config, int64_t T, int64_t train_tokens);

// How many steps a run makes in the time that it has: corrected as it goes, from how long its steps
// have taken, the last ones above all, and what lies between them. It has no clock of its own.
class BudgetPlan {
 public:
  // `steps` until more is known, and never more than `most`.
  BudgetPlan(double seconds, int64_t steps, int64_t most);

  // Another step took so long, after a pause of so long: an evaluation, a sample.
  void Step(double pause, double seconds);

  // The steps that a run will have made that has made `done` of them, `gone` seconds after its
  // beginning, and that needs `to_end` seconds behind its last. They stay what they were where a
  // hundredth would be gained; `done` means that the time is up.
  int64_t Correct(int64_t done, double gone, double to_end);

  int64_t steps() const { return steps_; }

 private:
  double seconds_;
  int64_t steps_, most_;
  double seen_ = 0;                               // steps of this process
  double spent_ = 0;                              // seconds of them
  double recent_steps_ = 0, recent_seconds_ = 0;  // of a past that fades
  double paused_ = 0;                             // as long as so many steps
  double pause_of_step_ = 0;
};

}  // namespace folio
