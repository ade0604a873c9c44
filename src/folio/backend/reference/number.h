#pragma once

#include <cstdint>

#include "folio/backend/ops.h"
#include "folio/base/rng.h"

namespace folio::reference {

// Sums and statistics are carried in the wider type, so that the reference is the more exact side
// of every comparison: double for float. double and complex numbers (whose imaginary part carries a
// derivative in the gradient proofs) stay what they are.
template <class Number>
struct WideOf {
  using Type = Number;
};
template <>
struct WideOf<float> {
  using Type = double;
};
template <class Number>
using Wide = typename WideOf<Number>::Type;

// (B,T,C) with rows of C contiguous elements, strides in elements.
template <class Number>
struct Rows {
  Number* data = nullptr;
  int64_t batch_stride = 0, row_stride = 0;

  Number* row(int64_t b, int64_t t) const { return data + b * batch_stride + t * row_stride; }
};

// H heads of queries share G heads of keys and values (0 for H), all D wide.
struct HeadSizes {
  int64_t B = 0, T = 0, S = 0, H = 1, G = 0, D = 0;

  int64_t key_heads() const { return KeyHeads(H, G); }
  int64_t KeyHead(int64_t h) const { return h / (H / key_heads()); }
  // Heads [FirstHead(g), FirstHead(g + 1)) share head g of keys and values.
  int64_t FirstHead(int64_t g) const { return g * (H / key_heads()); }
};

template <class Number>
Wide<Number> Dot(const Number* x, const Number* y, int64_t D) {
  using W = Wide<Number>;
  W sum = 0;
  for (int64_t d = 0; d < D; ++d) sum += W(x[d]) * W(y[d]);
  return sum;
}

// Dropout multiplies element (row, column) of an array of `width` columns with DropoutFactor.
inline double DropoutFactor(const Dropout& dropout, int64_t row, int64_t column, int64_t width) {
  if (!dropout.active()) return 1;
  const int64_t index = dropout.Index(row, column, width);
  const CounterRng rng(dropout.seed, dropout.stream);
  return rng.Bits(static_cast<uint64_t>(index)) < dropout.threshold() ? 0 : dropout.scale();
}

}  // namespace folio::reference
