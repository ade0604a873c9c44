#pragma once

#include <cstdint>
#include <vector>

#include "folio/backend/backend.h"

namespace folio {

// Causal self-attention as a model runs it: q, k and v side by side in one (B*T,3C) array.
struct AttentionShape {
  int64_t B = 1, T = 1, H = 12, D = 64;
  double dropout = 0;
  Dtype dtype = Dtype::kF32;
};

// One direction of it.
struct AttentionTiming {
  std::vector<double> seconds = {};  // of each run
  double flops = 0;                  // as the operation defines them: unmasked pairs only

  double flops_per_second() const;  // at the median
};

struct AttentionRate {
  AttentionShape shape;
  AttentionTiming forward, backward;
  // The memory that a model plans for it: qkv, out, lse and, for the backward, the gradients of the
  // first two.
  uint64_t planned_bytes = 0;

  double tokens_per_second() const;  // both directions, at their medians
};

// Bytes of those arrays.
uint64_t AttentionBytes(const AttentionShape& shape);

// Runs both directions in turns, at least three times and for `seconds` together, after a run of
// each that does not count.
AttentionRate MeasureAttention(Backend& backend, const AttentionShape& shape, double seconds);

}  // namespace folio
