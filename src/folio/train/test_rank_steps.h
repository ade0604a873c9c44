#pragma once

#include <cstdint>
#include <vector>

#include "folio/model/test_models.h"
#include "folio/train/train_step.h"

namespace folio {

// A rank's share of the micro-batches of a step, of random tokens that depend on step and number
// alone; returns their losses.
inline std::vector<double> AccumulateShare(TrainStep& train_step, int64_t vocab_size, int64_t step,
                                           int64_t micro_batches) {
  const int64_t B = train_step.pass().B(), T = train_step.pass().T();
  std::vector<double> losses;
  train_step.Begin();
  for (int64_t turn = 0; turn < train_step.parallelism().micro_batches; ++turn) {
    const int64_t micro = train_step.parallelism().MicroBatch(turn);
    const auto seed = static_cast<uint64_t>(100 * step + micro);
    const std::vector<int32_t> inputs = RandomTokens(B * T, vocab_size, seed);
    const std::vector<int32_t> targets = RandomTokens(B * T, vocab_size, seed + 50);
    losses.push_back(train_step.Accumulate(
        inputs, targets, 1.0 / static_cast<double>(B * T * micro_batches),
        {.on = true, .seed = 4, .step = static_cast<uint64_t>(step), .first_sequence = B * micro}));
  }
  return losses;
}

}  // namespace folio
