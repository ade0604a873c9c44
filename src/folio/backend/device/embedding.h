#pragma once

// Rows of tables, as EmbeddingForward and EmbeddingBackward in ops.h.

#include "folio/backend/device/numbers.h"
#include "folio/backend/ops.h"

namespace folio::device {

// The place of row n: positions[n] or, without them, its place among the T.
struct Places {
  const int32_t* positions;
  int64_t T;

  FOLIO_DEVICE int64_t operator()(int64_t n) const {
    return positions != nullptr ? positions[n] : n % T;
  }
};

template <class Weight>
struct EmbeddingForwardArgs {
  const int32_t* ids;
  const Weight* wte;
  const float* wpe;  // may be null
  float* out;
  int64_t N, C, V;
  Places places;
};

// A thread has an element. A token that is none gives NaN.
template <class Weight>
FOLIO_KERNEL void EmbeddingForwardKernel(EmbeddingForwardArgs<Weight> a) {
  const int64_t i = ThreadInGrid(), n = i / a.C, c = i % a.C;
  if (n >= a.N) return;
  const int32_t id = a.ids[n];
  float out = id == kElsewhere ? 0.0f : NAN;
  if (id >= 0 && id < a.V) out = Load(a.wte[id * a.C + c]);
  if (a.wpe != nullptr) out += a.wpe[a.places(n) * a.C + c];
  a.out[i] = out;
}

// The first set bit.
FOLIO_DEVICE int FirstLane(uint32_t lanes) {
  int lane = 0;
  while ((lanes >> lane & 1) == 0) ++lane;
  return lane;
}

// sums[row] += the sum, in order, of those of the N rows of x whose place is `row`, for each of
// `rows` rows. A warp has its own width of columns of a row, and looks through all places.
FOLIO_KERNEL void AddRowsByPlaceKernel(Places places, const float* x, float* sums, int64_t rows,
                                       int64_t N, int64_t C) {
  const int64_t parts = (C + kWarp - 1) / kWarp;
  const int64_t row = WarpInGrid() / parts, c = WarpInGrid() % parts * kWarp + Lane();
  if (row >= rows) return;
  float sum = 0;
  for (int64_t first = 0; first < N; first += kWarp) {
    const int64_t n = first + Lane();
    for (uint32_t here = Ballot(n < N && places(n) == row); here != 0; here &= here - 1) {
      if (c < C) sum += x[(first + FirstLane(here)) * C + c];
    }
  }
  if (c < C) sums[row * C + c] += sum;
}

}  // namespace folio::device
