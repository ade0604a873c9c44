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

}  // namespace folio
