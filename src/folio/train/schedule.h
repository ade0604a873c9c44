#pragma once

#include <cstdint>
#include <string>

#include "folio/train/config.h"

namespace folio {

// Learning rate of `step`, counted from 0. It rises as learning_rate * (step + 1) / (warmup_steps +
// 1) and then falls to min_lr at decay_end(), where it stays:
//   cosine    half a cosine (I. Loshchilov, F. Hutter, arXiv:1608.03983)
//   linear    a straight line
//   wsd       learning_rate for the first stable_fraction of decay_end(), then a straight line
//   constant  learning_rate for ever
double LearningRate(const TrainConfig& config, int64_t step);

// "to 0.001 in 100 steps, then a cosine down to 0.0001 at step 2,000", for people.
std::string DescribeSchedule(const TrainConfig& config);
// The schedule after the warm-up, for people: "then a cosine down to 0.0001 at step 2,000".
std::string DescribeDecay(const TrainConfig& config);

// How often a text is worth reading: train.epochs, where that is set, else one that new parameters
// have read so often teaches them nothing more, and a model that has read much before learns it by
// heart soon after.
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
