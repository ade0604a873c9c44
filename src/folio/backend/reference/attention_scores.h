#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "folio/backend/reference/number.h"
#include "folio/backend/reference/rows.h"

namespace folio::reference {

// scores (B,H,T,S): scores[b,h,t,s] = scale * q[b,t,h] . k[b,s,KeyHead(h)].
template <class Number>
void AttentionScoresForward(const HeadSizes& a, Rows<const Number> q, Rows<const Number> k,
                            Number* scores, double scale) {
  for (int64_t row = 0; row < a.B * a.H * a.T; ++row) {
    const int64_t b = row / (a.H * a.T), h = row / a.T % a.H, t = row % a.T;
    const Number* query = q.row(b, t) + h * a.D;
    for (int64_t s = 0; s < a.S; ++s) {
      const Number* key = k.row(b, s) + a.KeyHead(h) * a.D;
      scores[row * a.S + s] = Number(Dot(query, key, a.D) * scale);
    }
  }
}

// d_q and d_k are overwritten.
template <class Number>
void AttentionScoresBackward(const HeadSizes& a, Rows<const Number> q, Rows<const Number> k,
                             const Number* d_scores, Rows<Number> d_q, Rows<Number> d_k,
                             double scale) {
  using W = Wide<Number>;
  const auto size = [](int64_t n) { return static_cast<size_t>(n); };
  std::vector<W> q_sum(size(a.D)), k_sum(size(a.S * a.D));
  for (int64_t group = 0; group < a.B * a.key_heads(); ++group) {
    const int64_t b = group / a.key_heads(), g = group % a.key_heads();
    std::fill(k_sum.begin(), k_sum.end(), W(0));
    for (int64_t h = a.FirstHead(g); h < a.FirstHead(g + 1); ++h) {
      for (int64_t t = 0; t < a.T; ++t) {
        const Number* d = d_scores + ((b * a.H + h) * a.T + t) * a.S;
        std::fill(q_sum.begin(), q_sum.end(), W(0));
        for (int64_t i = 0; i < a.S * a.D; ++i) {
          const W d_product = W(d[i / a.D]) * scale;
          q_sum[size(i % a.D)] += d_product * W(k.row(b, i / a.D)[g * a.D + i % a.D]);
          k_sum[size(i)] += d_product * W(q.row(b, t)[h * a.D + i % a.D]);
        }
        for (int64_t i = 0; i < a.D; ++i) d_q.row(b, t)[h * a.D + i] = Number(q_sum[size(i)]);
      }
    }
    for (int64_t i = 0; i < a.S * a.D; ++i) {
      d_k.row(b, i / a.D)[g * a.D + i % a.D] = Number(k_sum[size(i)]);
    }
  }
}

}  // namespace folio::reference
