#pragma once

#include <cstdint>

#include "folio/backend/reference/dropout.h"
#include "folio/backend/reference/number.h"

namespace folio::reference {

// out = residual + dropout(x), all (N,C); residual may be null.
template <class Number>
void ResidualForward(const Number* residual, const Number* x, Number* out, int64_t N, int64_t C,
                     const Dropout& dropout) {
  using W = Wide<Number>;
  for (int64_t n = 0; n < N; ++n) {
    for (int64_t c = 0; c < C; ++c) {
      const int64_t i = n * C + c;
      const W kept = W(x[i]) * DropoutFactor(dropout, n, c, C);
      out[i] = Number(residual ? W(residual[i]) + kept : kept);
    }
  }
}

template <class Number>
void ResidualBackward(const Number* d_out, Number* d_x, int64_t N, int64_t C,
                      const Dropout& dropout) {
  using W = Wide<Number>;
  for (int64_t n = 0; n < N; ++n) {
    for (int64_t c = 0; c < C; ++c) {
      d_x[n * C + c] = Number(W(d_out[n * C + c]) * DropoutFactor(dropout, n, c, C));
    }
  }
}

}  // namespace folio::reference
