#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "folio/tensor/tensor.h"

namespace folio {

// Sequences of different lengths side by side, for training or losses: each starts a row, and the
// rest of the row is padding, which is not attended to and has no targets. With a GptPass of the
// same B and T (model/gpt.h):
//   pass.set_key_mask(padded.key_mask());
//   pass.Forward(params, padded.inputs, dropout);
//   pass.LossAndBackward(params, padded.targets, 1.0 / padded.CountTargets(), d_params);
// Losses and gradients equal those of the separate sequences.
struct PaddedBatch {
  int64_t B = 0, T = 0;
  std::vector<int32_t> inputs = {};   // (B,T), 0 for padding
  std::vector<int32_t> targets = {};  // (B,T), inputs shifted by one, -1 for padding
  std::vector<uint8_t> keys = {};     // (B,T): 1 for a token, 0 for padding

  Tensor key_mask() const;  // a view of `keys`
  int64_t CountTargets() const;
};

// Each sequence of n tokens takes n - 1 positions, whose targets are the tokens that follow. Rows
// have T positions, or, with T = 0, as many as the longest sequence needs. Throws a kUsage Error if
// there are no sequences, and for one of fewer than two tokens or longer than T allows.
PaddedBatch PadSequences(std::span<const std::vector<int32_t>> sequences, int64_t T = 0);

}  // namespace folio
