#pragma once

#include <cstdint>

namespace folio {

// What an operation does with an operand.
enum class Access { kRead, kWrite, kUpdate };

// Inverted dropout: each element is zeroed with probability p, the others are multiplied by
// 1/(1-p). Element (row, column) of an array of `width` columns is zeroed where CounterRng(seed,
// stream).Bits((first_row + row) * RoundUp(width, 64) + column) < p * 2^32, so that it depends on
// its place in the whole batch and not on threads or micro-batches.
struct Dropout {
  double p = 0;  // [0, 1)
  uint64_t seed = 0;
  uint64_t stream = 0;
  int64_t first_row = 0;

  bool active() const { return p > 0; }
  uint32_t threshold() const { return static_cast<uint32_t>(p * 4294967296.0); }
  double scale() const { return 1.0 / (1.0 - p); }
  static int64_t RowStride(int64_t width) { return (width + 63) / 64 * 64; }
};

}  // namespace folio
