#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "folio/data/batch_sampler.h"
#include "folio/tensor/tensor.h"

namespace folio {

// Sequences of unequal length side by side, for training or losses: each begins its row, and what
// is left of the row is padding, which nobody attends to and which predicts nothing:
//   learner.pass().set_key_mask(padded.key_mask());
//   learner.Accumulate(padded.batch.inputs, padded.batch.targets, 1.0 /
//   padded.batch.CountTargets(),
//                      dropout);
// Losses and gradients are those of the sequences by themselves.
struct PaddedBatch {
  Batch batch;
  std::vector<uint8_t> keys;  // (B,T): 1 for a token, 0 for padding

  // For GptPass::set_key_mask; views `keys`.
  Tensor key_mask() const;
};

// Each sequence of n tokens takes n - 1 positions, whose targets are the tokens that follow. Rows
// have T positions, or with T = 0 as many as the longest takes. Throws a kUsage Error for no
// sequence, one of less than two tokens, and one that is longer than T allows.
PaddedBatch PadSequences(std::span<const std::vector<int32_t>> sequences, int64_t T = 0);

}  // namespace folio
