#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <numbers>
#include <vector>

#include "folio/backend/ops.h"
#include "folio/base/check.h"
#include "folio/base/rng.h"

namespace folio::reference {

// Sums and statistics use the wider type, so that the reference is the more exact side of every
// comparison: double for float. double and complex numbers (whose imaginary part carries a
// derivative in the gradient proofs) keep their type.
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

// The factor of element (row, column) of an array of `width` columns.
inline double DropoutFactor(const Dropout& dropout, int64_t row, int64_t column, int64_t width) {
  if (!dropout.active()) return 1;
  const int64_t index = dropout.Index(row, column, width);
  const CounterRng rng(dropout.seed, dropout.stream);
  return rng.Bits(static_cast<uint64_t>(index)) < dropout.threshold() ? 0 : dropout.scale();
}

// A. Vaswani et al., "Attention is all you need", arXiv:1706.03762, section 3.2.

struct AttentionShape : HeadSizes {
  bool causal = true;
  const uint8_t* key_mask = nullptr;  // (B,S) or null
  Dropout dropout = {};
  // A (T,S) for each sequence, or one for all: 0 hides a key; `added` is added to scores.
  const uint8_t* allowed = nullptr;
  std::vector<double> added = {};
  bool one_mask = false;
  double scale = 0, cap = 0;  // as in ops.h
  int64_t window = 0;

  double Scale() const { return scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(D)); }
  // Keys [First(t), Keys(t)) are in the window of query t and not in its future.
  int64_t Keys(int64_t t) const { return causal ? std::clamp<int64_t>(t + S - T + 1, 0, S) : S; }
  int64_t First(int64_t t) const { return window > 0 ? std::max<int64_t>(0, Keys(t) - window) : 0; }
  bool Sees(int64_t b, int64_t t, int64_t s) const {
    return s >= First(t) && s < Keys(t) && !Masked(b, t, s);
  }
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

// The score for q . k before masks; `slope` receives its derivative with respect to q . k.
template <class W>
W CappedScore(const AttentionShape& a, W dot, W& slope) {
  using std::tanh;
  slope = a.Scale();
  const W score = dot * a.Scale();
  if (a.cap == 0) return score;
  const W t = tanh(score / a.cap);
  slope *= 1.0 - t * t;
  return a.cap * t;
}

// out (B,T,C); lse (B,H,T); probs (B,H,T,S) or null.
template <class Number>
void AttentionForward(const AttentionShape& a, Rows<const Number> q, Rows<const Number> k,
                      Rows<const Number> v, Rows<Number> out, Number* lse, Number* probs) {
  using std::exp, std::log;
  using W = Wide<Number>;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<W> weights(static_cast<size_t>(a.S)), sums(static_cast<size_t>(a.D));
  W slope = 0;
  for (int64_t row = 0; row < a.B * a.H * a.T; ++row) {
    const int64_t b = row / (a.H * a.T), h = row / a.T % a.H, t = row % a.T;
    const int64_t column = h * a.D, key_column = a.KeyHead(h) * a.D;
    double max = -kInfinity;
    bool any = false;
    for (int64_t s = 0; s < a.S; ++s) {
      if (!a.Sees(b, t, s)) continue;
      const W dot = Dot(q.row(b, t) + column, k.row(b, s) + key_column, a.D);
      const W score = CappedScore(a, dot, slope) + a.Added(b, t, s);
      weights[static_cast<size_t>(s)] = score;
      max = std::max(max, std::real(score));
      any = any || std::real(score) != -kInfinity;  // NaN counts, and appears in the result
    }
    W total = 0;
    for (int64_t s = 0; s < a.S; ++s) {
      W& weight = weights[static_cast<size_t>(s)];
      weight = a.Sees(b, t, s) ? exp(weight - max) : W(0);
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

// For the weights p = exp(score - lse), with dropout factors f and g[s] = f[s] (d_out . v[s]):
//   d_v[s] = sum over t of f[s] p[s] d_out,  d_score[s] = p[s] (g[s] - sum over s' of p[s'] g[s'])
// where a capped score c also has the slope 1 - (c / cap)^2. d_q, d_k and d_v are overwritten. The
// forward's result is not needed: the sum over s' is recomputed, which is more exact than using
// rounded numbers.
template <class Number>
void AttentionBackward(const AttentionShape& a, Rows<const Number> q, Rows<const Number> k,
                       Rows<const Number> v, const Number* lse, Rows<const Number> d_out,
                       Rows<Number> d_q, Rows<Number> d_k, Rows<Number> d_v) {
  using std::exp;
  using W = Wide<Number>;
  const auto size = [](int64_t n) { return static_cast<size_t>(n); };
  std::vector<W> p(size(a.S)), g(size(a.S)), slopes(size(a.S)), q_sum(size(a.D));
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
      for (int64_t s = 0; s < a.S; ++s) {
        p[size(s)] = 0;
        if (!any || !a.Sees(b, t, s)) continue;
        const W dot = Dot(query, k.row(b, s) + key_column, a.D);
        p[size(s)] = exp(CappedScore(a, dot, slopes[size(s)]) + a.Added(b, t, s) - row_lse);
        const double factor = a.Factor(b, h, t, s);
        g[size(s)] = factor * Dot(d, v.row(b, s) + key_column, a.D);
        total += p[size(s)] * g[size(s)];
        for (int64_t i = 0; i < a.D; ++i) {
          v_sum[size(s * a.D + i)] += factor * p[size(s)] * W(d[i]);
        }
      }
      std::fill(q_sum.begin(), q_sum.end(), W(0));
      for (int64_t s = 0; s < a.S; ++s) {
        if (p[size(s)] == W(0)) continue;
        const W d_score = p[size(s)] * (g[size(s)] - total) * slopes[size(s)];
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

  // The index in the pages of the keys (part 0) or values (part 1) of head g at a position of a
  // sequence.
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

// k and v (1,S,G*D) for positions from `first` on, table (W).
template <class Number>
void CacheRead(const PageShape& shape, const Number* pages, const int32_t* table, int64_t first,
               int64_t S, Rows<Number> k, Rows<Number> v) {
  for (int64_t s = 0; s < S; ++s) {
    for (int64_t g = 0; g < shape.G; ++g) {
      std::copy_n(pages + shape.Place(table, first + s, g, 0), shape.D, k.row(0, s) + g * shape.D);
      std::copy_n(pages + shape.Place(table, first + s, g, 1), shape.D, v.row(0, s) + g * shape.D);
    }
  }
}

// q and out (1,N,H*D), tables (N,W), positions (N): each row as a sequence of its own, with the
// other sizes of `a`.
template <class Number>
void CacheAttention(const PageShape& shape, AttentionShape a, Rows<const Number> q,
                    const Number* pages, int64_t N, const int32_t* tables, int64_t W,
                    const int32_t* positions, Rows<Number> out) {
  const int64_t C = shape.G * shape.D;
  std::vector<Number> lse(static_cast<size_t>(a.H));
  a.B = a.T = 1;
  a.G = shape.G;
  a.D = shape.D;
  for (int64_t n = 0; n < N; ++n) {
    const int64_t keys = positions[n] + 1;
    a.S = a.window > 0 ? std::min(keys, a.window) : keys;
    std::vector<Number> k(static_cast<size_t>(a.S * C)), v(k.size());
    CacheRead(shape, pages, tables + n * W, keys - a.S, a.S, Rows<Number>{k.data(), 0, C},
              Rows<Number>{v.data(), 0, C});
    AttentionForward(a, Rows<const Number>{q.row(0, n)}, Rows<const Number>{k.data(), 0, C},
                     Rows<const Number>{v.data(), 0, C}, Rows<Number>{out.row(0, n)}, lse.data(),
                     static_cast<Number*>(nullptr));
  }
}

// Row n is at positions[n] or, if `positions` is null, at its place among the T.
inline int64_t PositionOf(const int32_t* positions, int64_t n, int64_t T) {
  return positions != nullptr ? positions[n] : n % T;
}

inline void CheckToken(int32_t id, int64_t V) {
  FOLIO_CHECK((id >= 0 && id < V) || id == kElsewhere, "token outside the vocabulary");
}

// out[b*T+t,:] = wte[ids[b,t],:] + wpe[position,:]; wpe may be null. V is wte's rows.
template <class Number>
void EmbeddingForward(const int32_t* ids, const Number* wte, const Number* wpe, Number* out,
                      int64_t B, int64_t T, int64_t C, int64_t V, const int32_t* positions) {
  for (int64_t n = 0; n < B * T; ++n) {
    CheckToken(ids[n], V);
    for (int64_t c = 0; c < C; ++c) {
      const Number token = ids[n] == kElsewhere ? Number(0) : wte[ids[n] * C + c];
      out[n * C + c] = wpe ? token + wpe[PositionOf(positions, n, T) * C + c] : token;
    }
  }
}

// d_wte[ids[b,t],:] += d_out[b*T+t,:], d_wpe[position,:] += the same; d_wpe may be null.
template <class Number>
void EmbeddingBackward(const int32_t* ids, const Number* d_out, Number* d_wte, Number* d_wpe,
                       int64_t B, int64_t T, int64_t C, int64_t V, const int32_t* positions) {
  for (int64_t n = 0; n < B * T; ++n) {
    CheckToken(ids[n], V);
    for (int64_t c = 0; c < C; ++c) {
      if (ids[n] != kElsewhere) d_wte[ids[n] * C + c] += d_out[n * C + c];
      if (d_wpe) d_wpe[PositionOf(positions, n, T) * C + c] += d_out[n * C + c];
    }
  }
}

// J. L. Ba, J. R. Kiros, G. E. Hinton, arXiv:1607.06450. x and out (N,C), mean and rstd (N); bias
// may be null.
template <class Number>
void LayerNormForward(const Number* x, const Number* weight, const Number* bias, Number* out,
                      Number* mean, Number* rstd, int64_t N, int64_t C, double eps) {
  using std::sqrt;
  using W = Wide<Number>;
  for (int64_t n = 0; n < N; ++n, x += C, out += C) {
    W sum = 0, squares = 0;
    for (int64_t c = 0; c < C; ++c) sum += W(x[c]);
    const W mu = sum / static_cast<double>(C);
    for (int64_t c = 0; c < C; ++c) squares += (W(x[c]) - mu) * (W(x[c]) - mu);
    const W r = 1.0 / sqrt(squares / static_cast<double>(C) + eps);
    for (int64_t c = 0; c < C; ++c) {
      const W y = (W(x[c]) - mu) * r * W(weight[c]);
      out[c] = Number(bias ? y + W(bias[c]) : y);
    }
    mean[n] = Number(mu);
    rstd[n] = Number(r);
  }
}

// With y = (x - mean) * rstd and g = d_out * weight, row by row:
//   d_x = rstd * (g - average(g) - y * average(g * y))
// d_weight += sum over rows of d_out * y, d_bias += sum over rows of d_out; both may be null.
template <class Number>
void LayerNormBackward(const Number* x, const Number* weight, const Number* mean,
                       const Number* rstd, const Number* d_out, Number* d_x, Number* d_weight,
                       Number* d_bias, int64_t N, int64_t C, bool accumulate_d_x) {
  using W = Wide<Number>;
  std::vector<W> weight_sum(static_cast<size_t>(C)), bias_sum(static_cast<size_t>(C));
  for (int64_t n = 0; n < N; ++n) {
    const W mu = mean[n], r = rstd[n];
    W g_sum = 0, gy_sum = 0;
    for (int64_t c = 0; c < C; ++c) {
      const W d = d_out[n * C + c], y = (W(x[n * C + c]) - mu) * r;
      g_sum += d * W(weight[c]);
      gy_sum += d * W(weight[c]) * y;
      weight_sum[static_cast<size_t>(c)] += d * y;
      bias_sum[static_cast<size_t>(c)] += d;
    }
    g_sum /= static_cast<double>(C);
    gy_sum /= static_cast<double>(C);
    for (int64_t c = 0; c < C; ++c) {
      const W y = (W(x[n * C + c]) - mu) * r;
      const W d = r * (W(d_out[n * C + c]) * W(weight[c]) - g_sum - y * gy_sum);
      d_x[n * C + c] = Number(accumulate_d_x ? W(d_x[n * C + c]) + d : d);
    }
  }
  for (int64_t c = 0; c < C; ++c) {
    if (d_weight) d_weight[c] = Number(W(d_weight[c]) + weight_sum[static_cast<size_t>(c)]);
    if (d_bias) d_bias[c] = Number(W(d_bias[c]) + bias_sum[static_cast<size_t>(c)]);
  }
}

// The factor of an RMSNorm's normalised row; weight (C) or null.
template <class Number>
struct NormFactor {
  const Number* weight = nullptr;
  double offset = 0, scale = 1;

  Wide<Number> operator()(int64_t c) const {
    return weight ? (Wide<Number>(weight[c]) + offset) * scale : Wide<Number>(scale);
  }
};

// out = x * rstd * factor for one row with that average of squares, also in place. Returns rstd.
template <class Number>
Wide<Number> RmsNormRow(const Number* x, Wide<Number> average, NormFactor<Number> factor,
                        Number* out, int64_t C, double eps) {
  using std::sqrt;
  using W = Wide<Number>;
  const W rstd = 1.0 / sqrt(average + eps);
  for (int64_t c = 0; c < C; ++c) out[c] = Number(W(x[c]) * rstd * factor(c));
  return rstd;
}

// The sum of d_out * factor * x over one row.
template <class Number>
Wide<Number> RmsNormProducts(const Number* x, NormFactor<Number> factor, const Number* d_out,
                             int64_t C) {
  Wide<Number> sum = 0;
  for (int64_t c = 0; c < C; ++c) sum += Wide<Number>(d_out[c]) * factor(c) * Wide<Number>(x[c]);
  return sum;
}

// For one row, with y = x * rstd and g = d_out * factor: d_x = rstd * (g - y * average(g * y)),
// where d_x may be d_out itself, and the average of g * x is given. weight_sum += d_out * y *
// factor.scale.
template <class Number>
void RmsNormRowBackward(const Number* x, Wide<Number> average, NormFactor<Number> factor,
                        Number rstd, const Number* d_out, Number* d_x, Wide<Number>* weight_sum,
                        int64_t C, bool accumulate_d_x) {
  using W = Wide<Number>;
  const W r = rstd;
  for (int64_t c = 0; c < C; ++c) {
    const W y = W(x[c]) * r;
    weight_sum[c] += W(d_out[c]) * y * factor.scale;
    const W d = r * (W(d_out[c]) * factor(c) - y * r * average);
    d_x[c] = Number(accumulate_d_x ? W(d_x[c]) + d : d);
  }
}

// sums += parts, rounded once; sums may be null.
template <class Number>
void AddWide(const std::vector<Wide<Number>>& parts, Number* sums) {
  if (!sums) return;
  for (const Wide<Number>& part : parts) {
    *sums = Number(Wide<Number>(*sums) + part);
    ++sums;
  }
}

// x and out (N,C), rstd (N).
template <class Number>
void RmsNormForward(const Number* x, NormFactor<Number> factor, Number* out, Number* rstd,
                    int64_t N, int64_t C, double eps) {
  for (int64_t n = 0; n < N; ++n) {
    const Number* row = x + n * C;
    const Wide<Number> average = Dot(row, row, C) / static_cast<double>(C);
    rstd[n] = Number(RmsNormRow(row, average, factor, out + n * C, C, eps));
  }
}

// x, d_out and d_x (N,C), rstd (N); d_weight (C) += or null.
template <class Number>
void RmsNormBackward(const Number* x, NormFactor<Number> factor, const Number* rstd,
                     const Number* d_out, Number* d_x, Number* d_weight, int64_t N, int64_t C,
                     bool accumulate_d_x) {
  std::vector<Wide<Number>> weight_sum(static_cast<size_t>(C));
  for (int64_t n = 0; n < N; ++n) {
    const Wide<Number> products = RmsNormProducts(x + n * C, factor, d_out + n * C, C);
    RmsNormRowBackward(x + n * C, products / static_cast<double>(C), factor, rstd[n], d_out + n * C,
                       d_x + n * C, weight_sum.data(), C, accumulate_d_x);
  }
  AddWide(weight_sum, d_weight);
}

// Rows of queries or keys whose channels are normalised in groups, or whose only group is a part of
// a row of `whole` channels.
struct HeadNormShape {
  int64_t B = 0, T = 0, C = 0, group = 1, whole = 0;

  int64_t groups() const { return C / group; }
};

// x (B,T,C) in place; raw (B*T,C) and rstd (B*T,groups) may be null. sums (B*T) are the squares of
// rows of s.whole channels, or null.
template <class Number>
void HeadNormForward(const HeadNormShape& s, Rows<Number> x, NormFactor<Number> factor, Number* raw,
                     Number* rstd, double eps, const Number* sums = nullptr) {
  for (int64_t n = 0; n < s.B * s.T; ++n) {
    Number* row = x.row(n / s.T, n % s.T);
    if (raw) std::copy_n(row, s.C, raw + n * s.C);
    for (int64_t g = 0; g < s.groups(); ++g) {
      Number* part = row + g * s.group;
      const Wide<Number> average = sums ? Wide<Number>(sums[n]) / static_cast<double>(s.whole)
                                        : Dot(part, part, s.group) / static_cast<double>(s.group);
      const Wide<Number> r = RmsNormRow<Number>(part, average, factor, part, s.group, eps);
      if (rstd) rstd[n * s.groups() + g] = Number(r);
    }
  }
}

// d_x (B,T,C) in place; d_weight (group) += or null. sums (B*T) are the RmsNormProducts of rows of
// s.whole channels, or null.
template <class Number>
void HeadNormBackward(const HeadNormShape& s, const Number* raw, NormFactor<Number> factor,
                      const Number* rstd, Rows<Number> d_x, Number* d_weight,
                      const Number* sums = nullptr) {
  std::vector<Wide<Number>> weight_sum(static_cast<size_t>(s.group));
  for (int64_t i = 0; i < s.B * s.T * s.groups(); ++i) {
    const int64_t n = i / s.groups(), column = i % s.groups() * s.group;
    Number* part = d_x.row(n / s.T, n % s.T) + column;
    const Number* row = raw + n * s.C + column;
    const Wide<Number> average =
        sums ? Wide<Number>(sums[n]) / static_cast<double>(s.whole)
             : RmsNormProducts<Number>(row, factor, part, s.group) / static_cast<double>(s.group);
    RmsNormRowBackward<Number>(row, average, factor, rstd[i], part, part, weight_sum.data(),
                               s.group, false);
  }
  AddWide(weight_sum, d_weight);
}

// x (B,T,C), raw (B*T,C) or null, sums (B*T).
template <class Number>
void HeadNormSums(const HeadNormShape& s, Rows<Number> x, const Number* raw,
                  NormFactor<Number> factor, Number* sums) {
  for (int64_t n = 0; n < s.B * s.T; ++n) {
    const Number* row = x.row(n / s.T, n % s.T);
    sums[n] =
        Number(raw ? RmsNormProducts<Number>(raw + n * s.C, factor, row, s.C) : Dot(row, row, s.C));
  }
}

// out (N,2 * pairs), for rows at positions (N) or, if that is null, at 0, 1, ...
template <class Number>
void RotaryAngles(const float* inv_freq, int64_t pairs, const int32_t* positions, Number* out,
                  int64_t N, double attention_factor) {
  for (int64_t n = 0; n < N; ++n, out += 2 * pairs) {
    const auto position = static_cast<float>(positions != nullptr ? positions[n] : n);
    for (int64_t i = 0; i < pairs; ++i) {
      const float angle = position * inv_freq[i];
      out[i] = Number(std::cos(static_cast<double>(angle)) * attention_factor);
      out[pairs + i] = Number(std::sin(static_cast<double>(angle)) * attention_factor);
    }
  }
}

// x (B,T,H*D) in place, table (B*T,r) or, if `shared`, (T,r).
template <class Number>
void Rotary(const HeadSizes& s, Rows<Number> x, const Number* table, bool shared, int64_t r,
            bool inverse) {
  using W = Wide<Number>;
  for (int64_t n = 0; n < s.B * s.T; ++n) {
    const Number* cosines = table + (shared ? n % s.T : n) * r;
    for (int64_t h = 0; h < s.H; ++h) {
      Number* head = x.row(n / s.T, n % s.T) + h * s.D;
      for (int64_t i = 0; i < r / 2; ++i) {
        const W a = head[i], b = head[i + r / 2], cosine = cosines[i];
        const W sine = inverse ? -W(cosines[r / 2 + i]) : W(cosines[r / 2 + i]);
        head[i] = Number(a * cosine - b * sine);
        head[i + r / 2] = Number(b * cosine + a * sine);
      }
    }
  }
}

// sums[o] = sum over i of x[i] weight[i,o], for one row x of I; weight is (I,O), or (O,I) if
// transposed.
template <class Number>
void RowProduct(const Number* x, const Number* weight, Wide<Number>* sums, int64_t I, int64_t O,
                bool transposed) {
  using W = Wide<Number>;
  if (transposed) {
    for (int64_t o = 0; o < O; ++o) sums[o] = Dot(x, weight + o * I, I);
  } else {
    std::fill(sums, sums + O, W(0));
    for (int64_t i = 0; i < I; ++i) {
      for (int64_t o = 0; o < O; ++o) sums[o] += W(x[i]) * W(weight[i * O + o]);
    }
  }
}

// out[r,c] += sum over n of a[n,r] b[n,c]; a is (N,R), b (N,C), out (R,C).
template <class Number>
void AddOuterProducts(const Number* a, const Number* b, Number* out, int64_t N, int64_t R,
                      int64_t C) {
  using W = Wide<Number>;
  std::vector<W> sums(static_cast<size_t>(C));
  for (int64_t r = 0; r < R; ++r) {
    std::fill(sums.begin(), sums.end(), W(0));
    for (int64_t n = 0; n < N; ++n) {
      const W factor = a[n * R + r];
      for (int64_t c = 0; c < C; ++c) sums[static_cast<size_t>(c)] += factor * W(b[n * C + c]);
    }
    for (int64_t c = 0; c < C; ++c) {
      out[r * C + c] = Number(W(out[r * C + c]) + sums[static_cast<size_t>(c)]);
    }
  }
}

// out = x weight + bias, added to out if accumulate: x (N,I), out (N,O), bias (O) or null.
template <class Number>
void LinearForward(const Number* x, const Number* weight, const Number* bias, Number* out,
                   int64_t N, int64_t I, int64_t O, bool transposed, bool accumulate = false) {
  using W = Wide<Number>;
  std::vector<W> sums(static_cast<size_t>(O));
  for (int64_t n = 0; n < N; ++n) {
    RowProduct(x + n * I, weight, sums.data(), I, O, transposed);
    for (int64_t o = 0; o < O; ++o) {
      const W sum = sums[static_cast<size_t>(o)] + (accumulate ? W(out[n * O + o]) : W(0));
      out[n * O + o] = Number(bias ? sum + W(bias[o]) : sum);
    }
  }
}

// d_x = d_out weight^T, d_weight = x^T d_out, d_bias += sum over rows of d_out; the first two are
// added to the existing values if accumulate says so. d_x, d_weight and d_bias may be null, and x
// if d_weight is.
template <class Number>
void LinearBackward(const Number* x, const Number* weight, const Number* d_out, Number* d_x,
                    Number* d_weight, Number* d_bias, int64_t N, int64_t I, int64_t O,
                    bool transposed, bool accumulate_d_x, bool accumulate_d_weight) {
  using W = Wide<Number>;
  std::vector<W> sums(static_cast<size_t>(I));
  for (int64_t n = 0; d_x && n < N; ++n) {
    RowProduct(d_out + n * O, weight, sums.data(), O, I, !transposed);
    for (int64_t i = 0; i < I; ++i) {
      const W sum = sums[static_cast<size_t>(i)];
      d_x[n * I + i] = Number(accumulate_d_x ? W(d_x[n * I + i]) + sum : sum);
    }
  }
  if (d_weight && !accumulate_d_weight) std::fill(d_weight, d_weight + I * O, Number(0));
  if (d_weight && transposed) {
    AddOuterProducts(d_out, x, d_weight, N, O, I);
  } else if (d_weight) {
    AddOuterProducts(x, d_out, d_weight, N, I, O);
  }
  for (int64_t o = 0; d_bias && o < O; ++o) {
    W sum = d_bias[o];
    for (int64_t n = 0; n < N; ++n) sum += W(d_out[n * O + o]);
    d_bias[o] = Number(sum);
  }
}

inline double Erf(double x) {
  return std::erf(x);
}
// First order in the imaginary part: exact for the tiny ones that carry a derivative.
inline std::complex<double> Erf(std::complex<double> x) {
  const double a = x.real();
  return {std::erf(a), x.imag() * 2 * std::numbers::inv_sqrtpi * std::exp(-a * a)};
}

inline constexpr double kGeluCubic = 0.044715, kQuickGeluSlope = 1.702;
inline const double kSqrt2OverPi = std::sqrt(2 / std::numbers::pi);

template <class W>
W Logistic(W x) {
  using std::exp;
  return 1.0 / (1.0 + exp(-x));
}

template <class W>
W Activate(Activation kind, W x) {
  using std::tanh;
  switch (kind) {
    case Activation::kGeluNew:
      return 0.5 * x * (1.0 + tanh(kSqrt2OverPi * (x + kGeluCubic * x * x * x)));
    case Activation::kGelu:
      return 0.5 * x * (1.0 + Erf(x / std::numbers::sqrt2));
    case Activation::kRelu:
      return std::real(x) > 0 ? x : W(0);
    case Activation::kSilu:
      return x * Logistic(x);
    case Activation::kQuickGelu:
      return x * Logistic(kQuickGeluSlope * x);
    case Activation::kTanh:
      return tanh(x);
    case Activation::kRelu2:
      return std::real(x) > 0 ? x * x : W(0);
  }
  return x;
}

// The derivative at x.
template <class W>
W ActivationSlope(Activation kind, W x) {
  using std::exp, std::tanh;
  switch (kind) {
    case Activation::kGeluNew: {
      const W t = tanh(kSqrt2OverPi * (x + kGeluCubic * x * x * x));
      const W inner = kSqrt2OverPi * (1.0 + 3 * kGeluCubic * x * x);
      return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner;
    }
    case Activation::kGelu: {
      const double density = std::numbers::inv_sqrtpi / std::numbers::sqrt2;  // 1 / sqrt(2 pi)
      return 0.5 * (1.0 + Erf(x / std::numbers::sqrt2)) + x * density * exp(-0.5 * x * x);
    }
    case Activation::kRelu:
      return std::real(x) > 0 ? W(1) : W(0);
    case Activation::kSilu:
    case Activation::kQuickGelu: {
      const double a = kind == Activation::kSilu ? 1 : kQuickGeluSlope;
      const W s = Logistic(a * x);
      return s + a * x * s * (1.0 - s);
    }
    case Activation::kTanh: {
      const W t = tanh(x);
      return 1.0 - t * t;
    }
    case Activation::kRelu2:
      return std::real(x) > 0 ? 2.0 * x : W(0);
  }
  return x;
}

template <class Number>
void ActivationForward(Activation kind, const Number* x, Number* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = Number(Activate(kind, Wide<Number>(x[i])));
}

template <class Number>
void ActivationBackward(Activation kind, const Number* x, const Number* d_out, Number* d_x,
                        int64_t count) {
  using W = Wide<Number>;
  for (int64_t i = 0; i < count; ++i) {
    d_x[i] = Number(W(d_out[i]) * ActivationSlope(kind, W(x[i])));
  }
}

// x (N,2F), out (N,F).
template <class Number>
void GatedForward(Activation kind, const Number* x, Number* out, int64_t N, int64_t F) {
  using W = Wide<Number>;
  for (int64_t n = 0; n < N; ++n, x += 2 * F, out += F) {
    for (int64_t f = 0; f < F; ++f) out[f] = Number(Activate(kind, W(x[f])) * W(x[F + f]));
  }
}

// x and d_x (N,2F), which may be one array; d_out (N,F).
template <class Number>
void GatedBackward(Activation kind, const Number* x, const Number* d_out, Number* d_x, int64_t N,
                   int64_t F) {
  using W = Wide<Number>;
  for (int64_t n = 0; n < N; ++n, x += 2 * F, d_x += 2 * F, d_out += F) {
    for (int64_t f = 0; f < F; ++f) {
      const W gate = x[f], up = x[F + f], d = d_out[f];
      d_x[f] = Number(d * up * ActivationSlope(kind, gate));
      d_x[F + f] = Number(d * Activate(kind, gate));
    }
  }
}

// out = residual + factor * dropout(x), all (N,C); residual may be null.
template <class Number>
void ResidualForward(const Number* residual, const Number* x, Number* out, int64_t N, int64_t C,
                     const Dropout& dropout, double factor = 1) {
  using W = Wide<Number>;
  for (int64_t n = 0; n < N; ++n) {
    for (int64_t c = 0; c < C; ++c) {
      const int64_t i = n * C + c;
      const W kept = W(x[i]) * DropoutFactor(dropout, n, c, C) * factor;
      out[i] = Number(residual ? W(residual[i]) + kept : kept);
    }
  }
}

template <class Number>
void ResidualBackward(const Number* d_out, Number* d_x, int64_t N, int64_t C,
                      const Dropout& dropout, double factor = 1) {
  using W = Wide<Number>;
  for (int64_t n = 0; n < N; ++n) {
    for (int64_t c = 0; c < C; ++c) {
      d_x[n * C + c] = Number(W(d_out[n * C + c]) * DropoutFactor(dropout, n, c, C) * factor);
    }
  }
}

// All of `count` elements; x_factor may be null.
template <class Number>
void MixForward(const Number* x, const Number* y, const Number* x_factor, const Number* y_factor,
                double sign, Number* out, int64_t count) {
  using W = Wide<Number>;
  const W a = x_factor ? W(*x_factor) : W(1), b = sign * W(*y_factor);
  for (int64_t i = 0; i < count; ++i) out[i] = Number(a * W(x[i]) + b * W(y[i]));
}

// The gradients of factors may be null.
template <class Number>
struct MixGradients {
  Number *x, *y, *x_factor, *y_factor;
  bool accumulate_y = false;
};
template <class Number>
void MixBackward(const Number* x, const Number* y, const Number* x_factor, const Number* y_factor,
                 double sign, const Number* d_out, const MixGradients<Number>& d, int64_t count) {
  using W = Wide<Number>;
  const W a = x_factor ? W(*x_factor) : W(1), b = sign * W(*y_factor);
  W of_a = 0, of_b = 0;
  for (int64_t i = 0; i < count; ++i) {
    const W g = W(d_out[i]);
    of_a += g * W(x[i]);
    of_b += g * W(y[i]) * sign;
    d.x[i] = Number(a * g);
    d.y[i] = Number(d.accumulate_y ? W(d.y[i]) + b * g : b * g);
  }
  if (d.x_factor) *d.x_factor = Number(W(*d.x_factor) + of_a);
  if (d.y_factor) *d.y_factor = Number(W(*d.y_factor) + of_b);
}

// See GatedAddForward in ops.h.
struct GatedAddShape {
  int64_t B, T, C, X, G, J;
  double scale = 1;

  int64_t D() const { return C / G; }
};

// The gate of group g of a row of x.
template <class Number>
Wide<Number> GateOf(const GatedAddShape& s, const Number* x, const Number* weight, int64_t g) {
  using std::exp;
  return 1.0 / (1.0 + exp(-Dot(weight + g * s.J, x, s.J)));
}

// `factor` may be null.
template <class Number>
void GatedAddForward(const GatedAddShape& s, const Number* x, const Number* weight, const Number* y,
                     const Number* factor, Rows<Number> out) {
  using W = Wide<Number>;
  for (int64_t n = 0; n < s.B * s.T; ++n) {
    Number* to = out.row(n / s.T, n % s.T);
    for (int64_t c = 0; c < s.C; ++c) {
      const W gate = GateOf(s, x + n * s.X, weight, c / s.D());
      to[c] = Number(W(to[c]) + s.scale * (factor ? W(*factor) : W(1)) * gate * W(y[n * s.C + c]));
    }
  }
}

// The gradients of weight and factor may be null.
template <class Number>
struct GatedAddGradients {
  Number *y, *x, *weight, *factor;
};
template <class Number>
void GatedAddBackward(const GatedAddShape& s, const Number* x, const Number* weight,
                      const Number* y, const Number* factor, Rows<const Number> d_out,
                      const GatedAddGradients<Number>& d) {
  using W = Wide<Number>;
  const W f = factor ? W(*factor) : W(1);
  std::vector<W> of_weight(static_cast<size_t>(s.G * s.J));
  W of_factor = 0;
  for (int64_t n = 0; n < s.B * s.T; ++n) {
    const Number* from = d_out.row(n / s.T, n % s.T);
    std::vector<W> of_x(static_cast<size_t>(s.J));  // d.x may be d_out
    for (int64_t g = 0; g < s.G; ++g) {
      const W gate = GateOf(s, x + n * s.X, weight, g);
      const W through = s.scale * Dot(from + g * s.D(), y + n * s.C + g * s.D(), s.D());
      of_factor += gate * through;
      const W d_z = f * through * gate * (1.0 - gate);
      for (int64_t j = 0; j < s.J; ++j) {
        of_weight[static_cast<size_t>(g * s.J + j)] += d_z * W(x[n * s.X + j]);
        of_x[static_cast<size_t>(j)] += d_z * W(weight[g * s.J + j]);
      }
      for (int64_t c = g * s.D(); c < (g + 1) * s.D(); ++c) {
        d.y[n * s.C + c] = Number(s.scale * f * gate * W(from[c]));
      }
    }
    for (int64_t j = 0; j < s.J; ++j) {
      Number& to = d.x[n * s.X + j];
      to = Number(W(to) + of_x[static_cast<size_t>(j)]);
    }
  }
  AddWide(of_weight, d.weight);
  if (d.factor) *d.factor = Number(W(*d.factor) + of_factor);
}

template <class Number>
void LogitCap(Number* x, int64_t count, double cap) {
  using std::tanh;
  for (int64_t i = 0; i < count; ++i) x[i] = Number(cap * tanh(Wide<Number>(x[i]) / cap));
}

// logits (N,V), with `width` numbers from one row to the next; losses and lse (N). lse is that of
// the logits even if the target is kIgnore.
template <class Number>
void CrossEntropy(const Number* logits, const int32_t* targets, Number* losses, Number* lse,
                  int64_t N, int64_t V, int64_t width = 0) {
  using std::exp, std::log;
  using W = Wide<Number>;
  for (int64_t n = 0; n < N; ++n, logits += std::max(V, width)) {
    double max = -std::numeric_limits<double>::infinity();
    for (int64_t v = 0; v < V; ++v) max = std::max<double>(max, std::real(logits[v]));
    W total = 0;
    for (int64_t v = 0; v < V; ++v) total += exp(W(logits[v]) - max);
    const W row_lse = max + log(total);
    lse[n] = Number(row_lse);
    losses[n] = 0;
    if (targets[n] == folio::CrossEntropy::kIgnore || targets[n] == kElsewhere) continue;
    FOLIO_CHECK(targets[n] >= 0 && targets[n] < V, "target outside the vocabulary");
    losses[n] = Number(row_lse - W(logits[targets[n]]));
  }
}

template <class Number>
void CrossEntropyBackward(const Number* logits, const int32_t* targets, const Number* lse,
                          Number* d_logits, int64_t N, int64_t V, double scale, double cap = 0,
                          int64_t width = 0) {
  using std::exp;
  using W = Wide<Number>;
  for (int64_t n = 0; n < N; ++n) {
    const bool ignored = targets[n] == folio::CrossEntropy::kIgnore;
    FOLIO_CHECK(ignored || targets[n] == kElsewhere || (targets[n] >= 0 && targets[n] < V),
                "target outside the vocabulary");
    const int64_t row = n * std::max(V, width);
    for (int64_t v = 0; v < V; ++v) {
      const W logit = logits[row + v], p = exp(logit - W(lse[n]));
      W d = (p - (v == targets[n] ? 1.0 : 0.0)) * scale;
      if (cap > 0) d *= 1.0 - (logit / cap) * (logit / cap);
      d_logits[row + v] = ignored ? Number(0) : Number(d);
    }
    for (int64_t v = V; v < width; ++v) d_logits[row + v] = Number(0);
  }
}

// See AdamWUpdate in ops.h. Scalars come from `op`, whose tensors are ignored.
template <class Number>
void AdamW(const AdamWUpdate& op, Number* param, const Number* grad, Number* m, Number* v,
           int64_t count) {
  using std::sqrt;
  using W = Wide<Number>;
  const double step = static_cast<double>(op.step);
  const double m_correction = 1 - std::pow(op.beta1, step);
  const double v_correction = 1 - std::pow(op.beta2, step);
  for (int64_t i = 0; i < count; ++i) {
    const W g = W(grad[i]) * op.grad_scale;
    const W new_m = op.beta1 * W(m[i]) + (1 - op.beta1) * g;
    const W new_v = op.beta2 * W(v[i]) + (1 - op.beta2) * g * g;
    const W decayed = W(param[i]) * (1 - op.lr * op.weight_decay);
    const W direction = (new_m / m_correction) / (sqrt(new_v / v_correction) + op.eps);
    param[i] = Number(decayed - op.lr * direction);
    m[i] = Number(new_m);
    v[i] = Number(new_v);
  }
}

template <class Number>
void Scale(Number* x, int64_t count, double factor) {
  for (int64_t i = 0; i < count; ++i) x[i] = Number(Wide<Number>(x[i]) * factor);
}

template <class Number>
void CopyColumns(int64_t B, int64_t T, int64_t C, Rows<const Number> x, Rows<Number> out,
                 bool accumulate) {
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t t = 0; t < T; ++t) {
      const Number* from = x.row(b, t);
      Number* to = out.row(b, t);
      for (int64_t c = 0; c < C; ++c) to[c] = accumulate ? to[c] + from[c] : from[c];
    }
  }
}

template <class Number>
void Fill(Number* out, int64_t count, double value) {
  std::fill(out, out + count, Number(value));
}

}  // namespace folio::reference
