#include "folio/backend/cpu/attention.h"

#include <algorithm>
#include <cmath>

#include "folio/backend/cpu/attention_heads.h"
#include "folio/backend/cpu/attention_rows.h"
#include "folio/base/parallel.h"

// Scores are made for a block of queries at a time, and only for the keys that the last of them may
// see: the memory grows with S alone, and what the causal mask removes is never computed.

namespace folio::cpu {
namespace {

int64_t RoundUp(int64_t n) {
  return (n + 63) / 64 * 64;
}

struct Shape {
  int64_t B, T, S, H, G, D;
  bool causal;
  float scale;
  const uint8_t* key_mask;

  template <class Op>
  explicit Shape(const Op& op)
      : B(op.q.B),
        T(op.q.T),
        S(op.k.T),
        H(op.H),
        G(KeyHeads(op.H, op.G)),
        D(op.q.C / op.H),
        causal(op.causal),
        scale(static_cast<float>(1 / std::sqrt(static_cast<double>(D)))),
        key_mask(op.key_mask.template data<uint8_t>()) {}

  int64_t Keys(int64_t t) const { return causal ? std::clamp<int64_t>(t + S - T + 1, 0, S) : S; }
  int64_t KeyHead(int64_t h) const { return h / (H / G); }
  int64_t FirstHead(int64_t g) const { return g * (H / G); }
  int64_t DropoutRow(int64_t b, int64_t h, int64_t t) const { return (b * H + h) * T + t; }
  const uint8_t* Mask(int64_t b) const { return key_mask == nullptr ? nullptr : key_mask + b * S; }
};

void ForwardBlock(const AttentionForward& op, const Shape& a, int64_t b, int64_t h, int64_t begin,
                  float* scores) {
  const int64_t end = std::min(a.T, begin + kBlock), queries = end - begin;
  const int64_t keys = a.Keys(end - 1), stride = RoundUp(a.S), g = a.KeyHead(h);
  Products(HeadOf(op.q, b, begin, h, a.D), queries, HeadOf(op.k, b, 0, g, a.D), keys, a.D, a.scale,
           scores, stride);
  for (int64_t t = begin; t < end; ++t) {
    float* row = scores + (t - begin) * stride;
    const int64_t place = a.DropoutRow(b, h, t);
    op.lse.data<float>()[place] = SoftmaxRow(row, a.Keys(t), keys, a.Mask(b));
    if (op.probs) {
      float* probs = op.probs.data<float>() + place * a.S;
      std::copy_n(row, keys, probs);
      std::fill(probs + keys, probs + a.S, 0.0f);
    }
    if (op.dropout.active()) DropoutRow(op.dropout, place, a.S, a.Keys(t), row);
  }
  Combine(scores, stride, queries, keys, HeadOf(op.v, b, 0, g, a.D), a.D, 1,
          HeadOf(op.out, b, begin, h, a.D));
}

// One head of queries: its blocks from the last, which sees all keys, to the first. d_k and d_v of
// head g are written if this is the first head that shares it, and added to if not.
void BackwardHead(const AttentionBackward& op, const Shape& a, int64_t b, int64_t h,
                  float* weights) {
  const int64_t stride = RoundUp(a.S), g = a.KeyHead(h);
  float* grads = weights + kBlock * stride;
  float* factors = grads + kBlock * stride;
  const HeadRows k = HeadOf(op.k, b, 0, g, a.D), v = HeadOf(op.v, b, 0, g, a.D);
  const HeadRows d_k = HeadOf(op.d_k, b, 0, g, a.D), d_v = HeadOf(op.d_v, b, 0, g, a.D);
  for (int64_t begin = (a.T - 1) / kBlock * kBlock; begin >= 0; begin -= kBlock) {
    const int64_t end = std::min(a.T, begin + kBlock), queries = end - begin;
    const int64_t keys = a.Keys(end - 1);
    const HeadRows q = HeadOf(op.q, b, begin, h, a.D), d_q = HeadOf(op.d_q, b, begin, h, a.D);
    const HeadRows d_out = HeadOf(op.d_out, b, begin, h, a.D);
    Products(q, queries, k, keys, a.D, a.scale, weights, stride);
    Products(d_out, queries, v, keys, a.D, 1, grads, stride);
    for (int64_t t = begin; t < end; ++t) {
      const int64_t place = a.DropoutRow(b, h, t), row = (t - begin) * stride;
      RunAttentionBackwardRow({.weights = weights + row,
                               .grads = grads + row,
                               .factors = factors,
                               .keys = a.Keys(t),
                               .columns = keys,
                               .key_mask = a.Mask(b),
                               .lse = op.lse.data<float>()[place],
                               .dropout = &op.dropout,
                               .dropout_row = place,
                               .dropout_width = a.S});
    }
    const float beta = end == a.T && h == a.FirstHead(g) ? 0.0f : 1.0f;
    Collect(weights, stride, queries, keys, d_out, a.D, 1, beta, d_v);
    Collect(grads, stride, queries, keys, q, a.D, a.scale, beta, d_k);
    Combine(grads, stride, queries, keys, k, a.D, a.scale, d_q);
  }
}

}  // namespace

void RunAttention(const AttentionForward& op, Scratch& scratch) {
  const Shape a(op);
  const int64_t blocks = (a.T + kBlock - 1) / kBlock, slice = kBlock * RoundUp(a.S);
  float* scores = scratch.Get<float>(slice * Threads());
  ParallelFor(a.B * a.H * blocks, [&](int64_t task, int thread) {
    const int64_t head = task / blocks;
    ForwardBlock(op, a, head / a.H, head % a.H, task % blocks * kBlock, scores + thread * slice);
  });
}

void RunAttention(const AttentionBackward& op, Scratch& scratch) {
  const Shape a(op);
  const int64_t slice = (2 * kBlock + 1) * RoundUp(a.S);
  float* weights = scratch.Get<float>(slice * Threads());
  ParallelFor(a.B * a.G, [&](int64_t group, int thread) {
    const int64_t b = group / a.G, g = group % a.G;
    for (int64_t h = a.FirstHead(g); h < a.FirstHead(g + 1); ++h) {
      BackwardHead(op, a, b, h, weights + thread * slice);
    }
  });
}

}  // namespace folio::cpu
