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

// The number of epochs after which a model would learn no more from a text: train.epochs if it is
// set, else many for new parameters, and few for a model that is fine-tuned, which soon memorises
// it.
double WorthwhileEpochs(const TrainConfig& config);

// The largest number of steps that a run with train.budget makes on so many tokens. REQUIRES:
// context is set.
int64_t WorthwhileSteps(const TrainConfig& config, int64_t train_tokens);

// The number of steps that a run makes in its time, corrected during the run by the durations of
// its steps, mainly recent ones, and of the pauses between them. It has no clock of its own.
class BudgetPlan {
 public:
  // Plans `steps` at first, and never more than `most`.
  BudgetPlan(double seconds, int64_t steps, int64_t most);

  // Records a step that took `seconds`, after a pause (an evaluation, a sample) of `pause` seconds.
  void Step(double pause, double seconds);

  // Returns the number of steps of the whole run, of which `done` were made in `gone` seconds, and
  // which needs `to_end` seconds after its last step. It changes only by more than a hundredth;
  // `done` means that the time is over.
  int64_t Correct(int64_t done, double gone, double to_end);

  int64_t steps() const { return steps_; }

 private:
  double seconds_;
  int64_t steps_, most_;
  double seen_ = 0;                               // steps of this process
  double spent_ = 0;                              // seconds of them
  double recent_steps_ = 0, recent_seconds_ = 0;  // with decaying weights
  double paused_ = 0;                             // in durations of a step
  double pause_of_step_ = 0;
};

}  // namespace folio
