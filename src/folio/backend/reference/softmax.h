#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>

#include "folio/backend/reference/number.h"

namespace folio::reference {

// Rows of (N,S); out may be x. With a row's maximum m taken off, exp(x - m) / sum of exp(x - m) is
// the same function, and no exp exceeds 1. A row of -infinity gives zeros.
template <class Number>
void SoftmaxForward(const Number* x, Number* out, int64_t N, int64_t S) {
  using std::exp;
  using W = Wide<Number>;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (int64_t row = 0; row < N; ++row, x += S, out += S) {
    double max = -kInfinity;
    for (int64_t s = 0; s < S; ++s) max = std::max(max, static_cast<double>(std::real(x[s])));
    const auto weight = [&](Number score) {
      return std::real(score) == -kInfinity ? W(0) : exp(W(score) - max);
    };
    W total = 0;
    for (int64_t s = 0; s < S; ++s) total += weight(x[s]);
    for (int64_t s = 0; s < S; ++s) {
      out[s] = total == W(0) ? Number(0) : Number(weight(x[s]) / total);
    }
  }
}

// The formula as it stands. exp is Number's own, so that it overflows where Number does.
template <class Number>
void NaiveSoftmaxForward(const Number* x, Number* out, int64_t N, int64_t S) {
  using std::exp;
  using W = Wide<Number>;
  for (int64_t row = 0; row < N; ++row, x += S, out += S) {
    W total = 0;
    for (int64_t s = 0; s < S; ++s) {
      out[s] = exp(x[s]);
      total += W(out[s]);
    }
    for (int64_t s = 0; s < S; ++s) out[s] = total == W(0) ? Number(0) : Number(W(out[s]) / total);
  }
}

// d_x = out * (d_out - sum over the row of out * d_out); d_x may be d_out.
template <class Number>
void SoftmaxBackward(const Number* out, const Number* d_out, Number* d_x, int64_t N, int64_t S) {
  using W = Wide<Number>;
  for (int64_t row = 0; row < N; ++row, out += S, d_out += S, d_x += S) {
    W total = 0;
    for (int64_t s = 0; s < S; ++s) total += W(out[s]) * W(d_out[s]);
    for (int64_t s = 0; s < S; ++s) d_x[s] = Number(W(out[s]) * (W(d_out[s]) - total));
  }
}

// out = x / sum of x, zeros where the sum is 0; out may be x. sums (N).
template <class Number>
void NormalizeForward(const Number* x, Number* out, Number* sums, int64_t N, int64_t S) {
  using W = Wide<Number>;
  for (int64_t row = 0; row < N; ++row, x += S, out += S) {
    W total = 0;
    for (int64_t s = 0; s < S; ++s) total += W(x[s]);
    for (int64_t s = 0; s < S; ++s) out[s] = total == W(0) ? Number(0) : Number(W(x[s]) / total);
    sums[row] = Number(total);
  }
}

// d_x = (d_out - sum over the row of out * d_out) / sums, zeros where the sum is 0; d_x may be
// d_out.
template <class Number>
void NormalizeBackward(const Number* out, const Number* sums, const Number* d_out, Number* d_x,
                       int64_t N, int64_t S) {
  using W = Wide<Number>;
  for (int64_t row = 0; row < N; ++row, out += S, d_out += S, d_x += S) {
    W total = 0;
    for (int64_t s = 0; s < S; ++s) total += W(out[s]) * W(d_out[s]);
    for (int64_t s = 0; s < S; ++s) {
      d_x[s] = sums[row] == Number(0) ? Number(0) : Number((W(d_out[s]) - total) / W(sums[row]));
    }
  }
}

}  // namespace folio::reference
