#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "folio/backend/reference/number.h"
#include "folio/backend/reference/rows.h"

namespace folio::reference {

// weights (B,H,T,S): out[b,t,h] = sum over s of weights[b,h,t,s] * v[b,s,KeyHead(h)].
template <class Number>
void AttentionContextForward(const HeadSizes& a, const Number* weights, Rows<const Number> v,
                             Rows<Number> out) {
  using W = Wide<Number>;
  for (int64_t row = 0; row < a.B * a.H * a.T; ++row) {
    const int64_t b = row / (a.H * a.T), h = row / a.T % a.H, t = row % a.T;
    for (int64_t d = 0; d < a.D; ++d) {
      W sum = 0;
      for (int64_t s = 0; s < a.S; ++s) {
        sum += W(weights[row * a.S + s]) * W(v.row(b, s)[a.KeyHead(h) * a.D + d]);
      }
      out.row(b, t)[h * a.D + d] = Number(sum);
    }
  }
}

// d_weights and d_v are overwritten.
template <class Number>
void AttentionContextBackward(const HeadSizes& a, const Number* weights, Rows<const Number> v,
                              Rows<const Number> d_out, Number* d_weights, Rows<Number> d_v) {
  using W = Wide<Number>;
  std::vector<W> v_sum(static_cast<size_t>(a.S * a.D));
  for (int64_t group = 0; group < a.B * a.key_heads(); ++group) {
    const int64_t b = group / a.key_heads(), g = group % a.key_heads();
    std::fill(v_sum.begin(), v_sum.end(), W(0));
    for (int64_t h = a.FirstHead(g); h < a.FirstHead(g + 1); ++h) {
      for (int64_t t = 0; t < a.T; ++t) {
        const int64_t row = (b * a.H + h) * a.T + t;
        const Number* d = d_out.row(b, t) + h * a.D;
        for (int64_t s = 0; s < a.S; ++s) {
          d_weights[row * a.S + s] = Number(Dot(d, v.row(b, s) + g * a.D, a.D));
          for (int64_t i = 0; i < a.D; ++i) {
            v_sum[static_cast<size_t>(s * a.D + i)] += W(weights[row * a.S + s]) * W(d[i]);
          }
        }
      }
    }
    for (int64_t i = 0; i < a.S * a.D; ++i) {
      d_v.row(b, i / a.D)[g * a.D + i % a.D] = Number(v_sum[static_cast<size_t>(i)]);
    }
  }
}

}  // namespace folio::reference
