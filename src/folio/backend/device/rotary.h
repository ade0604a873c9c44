#pragma once

// Rotary positions, as ops.h says.

#include "folio/backend/device/numbers.h"

namespace folio::device {

// Frequencies as arguments of a launch, since they lie in the host's memory.
inline constexpr int kFrequencies = 512;
struct Frequencies {
  float values[kFrequencies];
};

// Pairs [first, first + count) of rows of `pairs`; a thread has a pair of a row. positions may be
// null: then row n is at position n. Sine and cosine are computed in double.
struct RotaryAnglesArgs {
  Frequencies frequencies;
  const int32_t* positions;
  float* out;
  int64_t N, pairs, first, count;
  double factor;
};

FOLIO_KERNEL void RotaryAnglesKernel(RotaryAnglesArgs a) {
  const int64_t n = ThreadInGrid() / a.count, i = ThreadInGrid() % a.count;
  if (n >= a.N) return;
  const auto position = static_cast<float>(a.positions != nullptr ? a.positions[n] : n);
  const double angle = static_cast<double>(position * a.frequencies.values[i]);
  float* out = a.out + n * 2 * a.pairs + a.first + i;
  out[0] = static_cast<float>(cos(angle) * a.factor);
  out[a.pairs] = static_cast<float>(sin(angle) * a.factor);
}

template <class Low>
struct RotaryArgs {
  RowsOf<Low> x;       // N rows of H heads of D
  const float* table;  // (N,r) or, if shared, (T,r) with T = x.per_sequence
  int64_t N, H, D, r;
  bool shared, inverse;
};

// A thread has a pair of channels.
template <class Low>
FOLIO_KERNEL void RotaryKernel(RotaryArgs<Low> a) {
  const int64_t pairs = a.r / 2, i = ThreadInGrid() % pairs;
  const int64_t h = ThreadInGrid() / pairs % a.H, n = ThreadInGrid() / pairs / a.H;
  if (n >= a.N) return;
  const float* angles = a.table + (a.shared ? n % a.x.per_sequence : n) * a.r + i;
  const float cosine = angles[0], sine = a.inverse ? -angles[pairs] : angles[pairs];
  Low* x = a.x.Row(n) + h * a.D + i;
  const float first = Load(x[0]), second = Load(x[pairs]);
  Store(x[0], first * cosine - second * sine);
  Store(x[pairs], second * cosine + first * sine);
}

}  // namespace folio::device
