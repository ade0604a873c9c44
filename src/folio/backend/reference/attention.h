#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <vector>

#include "folio/backend/ops.h"
#include "folio/backend/reference/number.h"

namespace folio::reference {

// A. Vaswani et al., "Attention is all you need", arXiv:1706.03762, section 3.2.

struct AttentionShape : HeadSizes {
  bool causal = true;
  const uint8_t* key_mask = nullptr;  // (B,S) or null
  Dropout dropout = {};
  // A (T,S) for each sequence, or one for all: where it is 0, and what is added to scores.
  const uint8_t* allowed = nullptr;
  std::vector<double> added = {};
  bool one_mask = false;
  double scale = 0;  // as in ops.h

  double Scale() const { return scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(D)); }
  // Keys [0, Keys(t)) are not in the future of query t.
  int64_t Keys(int64_t t) const { return causal ? std::clamp<int64_t>(t + S - T + 1, 0, S) : S; }
  size_t MaskPlace(int64_t b, int64_t t, int64_t s) const {
    return static_cast<size_t>(((one_mask ? 0 : b) * T + t) * S + s);
  }
  bool Masked(int64_t b, int64_t t, int64_t s) const {
    return (key_mask && key_mask[b * S + s] == 0) ||
           (allowed && allowed[MaskPlace(b, t, s)] == 0) ||
           Added(b, t, s) <= folio::AttentionForward::kHidden;
  }
  double Added(int64_t b, int64_t t, int64_t s) const {
    return added.empty() ? 0 : added[MaskPlace(b, t, s)];
  }
  double Factor(int64_t b, int64_t h, int64_t t, int64_t s) const {
    return DropoutFactor(dropout, dropout.Row(b, h, t, H, T), s, S);
  }
};

// out (B,T,C); lse (B,H,T); probs (B,H,T,S) or null.
template <class Number>
void AttentionForward(const AttentionShape& a, Rows<const Number> q, Rows<const Number> k,
                      Rows<const Number> v, Rows<Number> out, Number* lse, Number* probs) {
  using std::exp, std::log;
  using W = Wide<Number>;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double scale = a.Scale();
  std::vector<W> weights(static_cast<size_t>(a.S)), sums(static_cast<size_t>(a.D));
  for (int64_t row = 0; row < a.B * a.H * a.T; ++row) {
    const int64_t b = row / (a.H * a.T), h = row / a.T % a.H, t = row % a.T;
    const int64_t column = h * a.D, key_column = a.KeyHead(h) * a.D;
    double max = -kInfinity;
    bool any = false;
    for (int64_t s = 0; s < a.Keys(t); ++s) {
      if (a.Masked(b, t, s)) continue;
      const W score =
          Dot(q.row(b, t) + column, k.row(b, s) + key_column, a.D) * scale + a.Added(b, t, s);
      weights[static_cast<size_t>(s)] = score;
      max = std::max(max, std::real(score));
      any = any || std::real(score) != -kInfinity;  // NaN counts, and comes out again
    }
    W total = 0;
    for (int64_t s = 0; s < a.S; ++s) {
      W& weight = weights[static_cast<size_t>(s)];
      weight = s < a.Keys(t) && !a.Masked(b, t, s) ? exp(weight - max) : W(0);
      total += weight;
    }
    std::fill(sums.begin(), sums.end(), W(0));
    for (int64_t s = 0; s < a.S; ++s) {
      const W weight = any ? weights[static_cast<size_t>(s)] / total : W(0);
      if (probs) probs[row * a.S + s] = Number(weight);
      if (weight == W(0)) continue;
      const W kept = weight * a.Factor(b, h, t, s);
      for (int64_t d = 0; d < a.D; ++d) {
        sums[static_cast<size_t>(d)] += kept * W(v.row(b, s)[key_column + d]);
      }
    }
    for (int64_t d = 0; d < a.D; ++d) {
      out.row(b, t)[column + d] = Number(sums[static_cast<size_t>(d)]);
    }
    lse[row] = any ? Number(max + log(total)) : Number(-kInfinity);
  }
}

// For the weights p = exp(score - lse), with f the dropout factors and g[s] = f[s] (d_out . v[s]):
//   d_v[s] = sum over t of f[s] p[s] d_out,  d_score[s] = p[s] (g[s] - sum over s' of p[s'] g[s'])
// d_q, d_k and d_v are overwritten. The forward's result is not needed: the sum over s' is made
// anew, which loses less than reading it back from rounded numbers.
template <class Number>
void AttentionBackward(const AttentionShape& a, Rows<const Number> q, Rows<const Number> k,
                       Rows<const Number> v, const Number* lse, Rows<const Number> d_out,
                       Rows<Number> d_q, Rows<Number> d_k, Rows<Number> d_v) {
  using std::exp;
  using W = Wide<Number>;
  const double scale = a.Scale();
  const auto size = [](int64_t n) { return static_cast<size_t>(n); };
  std::vector<W> p(size(a.S)), g(size(a.S)), q_sum(size(a.D));
  std::vector<W> k_sum(size(a.S * a.D)), v_sum(size(a.S * a.D));
  for (int64_t head = 0; head < a.B * a.H; ++head) {
    const int64_t b = head / a.H, h = head % a.H, column = h * a.D;
    const int64_t key_head = a.KeyHead(h), key_column = key_head * a.D;
    if (h == a.FirstHead(key_head)) {
      std::fill(k_sum.begin(), k_sum.end(), W(0));
      std::fill(v_sum.begin(), v_sum.end(), W(0));
    }
    for (int64_t t = 0; t < a.T; ++t) {
      const Number* query = q.row(b, t) + column;
      const Number* d = d_out.row(b, t) + column;
      const W row_lse = lse[head * a.T + t];
      const bool any = std::real(row_lse) != -std::numeric_limits<double>::infinity();
      W total = 0;
      for (int64_t s = 0; s < a.Keys(t); ++s) {
        const bool seen = any && !a.Masked(b, t, s);
        p[size(s)] = seen ? exp(Dot(query, k.row(b, s) + key_column, a.D) * scale +
                                a.Added(b, t, s) - row_lse)
                          : W(0);
        if (!seen) continue;
        const double factor = a.Factor(b, h, t, s);
        g[size(s)] = factor * Dot(d, v.row(b, s) + key_column, a.D);
        total += p[size(s)] * g[size(s)];
        for (int64_t i = 0; i < a.D; ++i) {
          v_sum[size(s * a.D + i)] += factor * p[size(s)] * W(d[i]);
        }
      }
      std::fill(q_sum.begin(), q_sum.end(), W(0));
      for (int64_t s = 0; s < a.Keys(t); ++s) {
        if (p[size(s)] == W(0)) continue;
        const W d_score = p[size(s)] * (g[size(s)] - total) * scale;
        for (int64_t i = 0; i < a.D; ++i) {
          q_sum[size(i)] += d_score * W(k.row(b, s)[key_column + i]);
          k_sum[size(s * a.D + i)] += d_score * W(query[i]);
        }
      }
      for (int64_t i = 0; i < a.D; ++i) d_q.row(b, t)[column + i] = Number(q_sum[size(i)]);
    }
    if (h + 1 < a.FirstHead(key_head + 1)) continue;
    for (int64_t i = 0; i < a.S * a.D; ++i) {
      d_k.row(b, i / a.D)[key_column + i % a.D] = Number(k_sum[size(i)]);
      d_v.row(b, i / a.D)[key_column + i % a.D] = Number(v_sum[size(i)]);
    }
  }
}

// Pages (M,G,2,R,D), as in ops.h.
struct PageShape {
  int64_t G = 1, R = 1, D = 1;

  // Place is the index in the pages of the keys (part 0) or values (part 1) of head g at a position
  // of a sequence.
  int64_t Place(const int32_t* table, int64_t position, int64_t g, int64_t part) const {
    return (((table[position / R] * G + g) * 2 + part) * R + position % R) * D;
  }
};

// k and v (1,N,G*D), tables (N,W), positions (N).
template <class Number>
void CacheWrite(const PageShape& shape, Rows<const Number> k, Rows<const Number> v, int64_t N,
                const int32_t* tables, int64_t W, const int32_t* positions, Number* pages) {
  for (int64_t n = 0; n < N; ++n) {
    for (int64_t g = 0; g < shape.G; ++g) {
      const auto place = [&](int64_t part) {
        return pages + shape.Place(tables + n * W, positions[n], g, part);
      };
      std::copy_n(k.row(0, n) + g * shape.D, shape.D, place(0));
      std::copy_n(v.row(0, n) + g * shape.D, shape.D, place(1));
    }
  }
}

// k and v (1,S,G*D), table (W).
template <class Number>
void CacheRead(const PageShape& shape, const Number* pages, const int32_t* table, int64_t S,
               Rows<Number> k, Rows<Number> v) {
  for (int64_t s = 0; s < S; ++s) {
    for (int64_t g = 0; g < shape.G; ++g) {
      std::copy_n(pages + shape.Place(table, s, g, 0), shape.D, k.row(0, s) + g * shape.D);
      std::copy_n(pages + shape.Place(table, s, g, 1), shape.D, v.row(0, s) + g * shape.D);
    }
  }
}

// q and out (1,N,H*D), tables (N,W), positions (N): each row as a sequence of its own.
template <class Number>
void CacheAttention(const PageShape& shape, Rows<const Number> q, const Number* pages, int64_t N,
                    int64_t H, const int32_t* tables, int64_t W, const int32_t* positions,
                    double scale, Rows<Number> out) {
  const int64_t C = shape.G * shape.D;
  std::vector<Number> lse(static_cast<size_t>(H));
  for (int64_t n = 0; n < N; ++n) {
    const int64_t S = positions[n] + 1;
    std::vector<Number> k(static_cast<size_t>(S * C)), v(k.size());
    CacheRead(shape, pages, tables + n * W, S, Rows<Number>{k.data(), 0, C},
              Rows<Number>{v.data(), 0, C});
    AttentionShape row{{.B = 1, .T = 1, .S = S, .H = H, .G = shape.G, .D = shape.D}};
    row.scale = scale;
    AttentionForward(row, Rows<const Number>{q.row(0, n)}, Rows<const Number>{k.data(), 0, C},
                     Rows<const Number>{v.data(), 0, C}, Rows<Number>{out.row(0, n)}, lse.data(),
                     static_cast<Number*>(nullptr));
  }
}

}  // namespace folio::reference
