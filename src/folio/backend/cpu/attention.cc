#include "folio/backend/cpu/attention.h"

#include <algorithm>
#include <cmath>

#include "folio/backend/cpu/attention_rows.h"
#include "folio/backend/cpu/matmul.h"
#include "folio/base/parallel.h"

// Scores are made for a block of queries at a time, and only for the keys that the last of them may
// see: the memory grows with S alone, and what the causal mask removes is never computed.

namespace folio::cpu {
namespace {

constexpr int64_t kQueries = 64;  // of a block

int64_t RoundUp(int64_t n) {
  return (n + 63) / 64 * 64;
}

struct Shape {
  int64_t B, T, S, H, D;
  bool causal;
  float scale;
  const uint8_t* key_mask;

  template <class Op>
  explicit Shape(const Op& op)
      : B(op.q.B),
        T(op.q.T),
        S(op.k.T),
        H(op.H),
        D(op.q.C / op.H),
        causal(op.causal),
        scale(static_cast<float>(1 / std::sqrt(static_cast<double>(D)))),
        key_mask(op.key_mask.template data<uint8_t>()) {}

  int64_t Keys(int64_t t) const { return causal ? std::clamp<int64_t>(t + S - T + 1, 0, S) : S; }
  int64_t DropoutRow(int64_t b, int64_t h, int64_t t) const { return (b * H + h) * T + t; }
  const uint8_t* Mask(int64_t b) const { return key_mask == nullptr ? nullptr : key_mask + b * S; }
};

// A (rows, D) part of one head, as a matrix operand.
struct HeadRows {
  float* data;
  int64_t stride;
};
HeadRows HeadOf(const SequenceView& x, int64_t b, int64_t t, int64_t h, int64_t D) {
  return {x.row<float>(b, t) + h * D, x.row_stride};
}

void ZeroRows(const HeadRows& x, int64_t rows, int64_t D) {
  for (int64_t r = 0; r < rows; ++r) std::fill_n(x.data + r * x.stride, D, 0.0f);
}

// scores (queries, keys) = alpha * x y^T over the head's D channels.
void Products(const HeadRows& x, int64_t queries, const HeadRows& y, int64_t keys, int64_t D,
              float alpha, float* scores, int64_t stride) {
  MatMulOnThread({.M = queries,
                  .N = keys,
                  .K = D,
                  .a = x.data,
                  .lda = x.stride,
                  .b = y.data,
                  .ldb = y.stride,
                  .transpose_b = true,
                  .c = scores,
                  .ldc = stride,
                  .alpha = alpha});
}

// to (queries, D) = alpha * weights (queries, keys) x (keys, D).
void Combine(const float* weights, int64_t stride, int64_t queries, int64_t keys, const HeadRows& x,
             int64_t D, float alpha, const HeadRows& to) {
  MatMulOnThread({.M = queries,
                  .N = D,
                  .K = keys,
                  .a = weights,
                  .lda = stride,
                  .b = x.data,
                  .ldb = x.stride,
                  .c = to.data,
                  .ldc = to.stride,
                  .alpha = alpha});
}

// to (keys, D) = beta * to + alpha * weights^T (keys, queries) x (queries, D).
void Collect(const float* weights, int64_t stride, int64_t queries, int64_t keys, const HeadRows& x,
             int64_t D, float alpha, float beta, const HeadRows& to) {
  MatMulOnThread({.M = keys,
                  .N = D,
                  .K = queries,
                  .a = weights,
                  .lda = stride,
                  .transpose_a = true,
                  .b = x.data,
                  .ldb = x.stride,
                  .c = to.data,
                  .ldc = to.stride,
                  .alpha = alpha,
                  .beta = beta});
}

void ForwardBlock(const AttentionForward& op, const Shape& a, int64_t b, int64_t h, int64_t begin,
                  float* scores) {
  const int64_t end = std::min(a.T, begin + kQueries), queries = end - begin;
  const int64_t keys = a.Keys(end - 1), stride = RoundUp(a.S);
  const HeadRows out = HeadOf(op.out, b, begin, h, a.D);
  if (keys > 0) {
    Products(HeadOf(op.q, b, begin, h, a.D), queries, HeadOf(op.k, b, 0, h, a.D), keys, a.D,
             a.scale, scores, stride);
  }
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
  if (keys > 0) {
    Combine(scores, stride, queries, keys, HeadOf(op.v, b, 0, h, a.D), a.D, 1, out);
  } else {
    ZeroRows(out, queries, a.D);
  }
}

// One head: its blocks of queries from the last, which sees all keys, to the first.
void BackwardHead(const AttentionBackward& op, const Shape& a, int64_t b, int64_t h,
                  float* weights) {
  const int64_t stride = RoundUp(a.S);
  float* grads = weights + kQueries * stride;
  float* factors = grads + kQueries * stride;
  const HeadRows k = HeadOf(op.k, b, 0, h, a.D), v = HeadOf(op.v, b, 0, h, a.D);
  const HeadRows d_k = HeadOf(op.d_k, b, 0, h, a.D), d_v = HeadOf(op.d_v, b, 0, h, a.D);
  for (int64_t begin = (a.T - 1) / kQueries * kQueries; begin >= 0; begin -= kQueries) {
    const int64_t end = std::min(a.T, begin + kQueries), queries = end - begin;
    const int64_t keys = a.Keys(end - 1);
    const HeadRows q = HeadOf(op.q, b, begin, h, a.D), d_q = HeadOf(op.d_q, b, begin, h, a.D);
    const HeadRows d_out = HeadOf(op.d_out, b, begin, h, a.D);
    if (keys == 0) {
      ZeroRows(d_q, queries, a.D);
      continue;
    }
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
    const float beta = end == a.T ? 0.0f : 1.0f;
    Collect(weights, stride, queries, keys, d_out, a.D, 1, beta, d_v);
    Collect(grads, stride, queries, keys, q, a.D, a.scale, beta, d_k);
    Combine(grads, stride, queries, keys, k, a.D, a.scale, d_q);
  }
}

}  // namespace

void RunAttention(const AttentionForward& op, Scratch& scratch) {
  const Shape a(op);
  const int64_t blocks = (a.T + kQueries - 1) / kQueries, slice = kQueries * RoundUp(a.S);
  float* scores = scratch.Get<float>(slice * Threads());
  ParallelFor(a.B * a.H * blocks, [&](int64_t task, int thread) {
    const int64_t head = task / blocks;
    ForwardBlock(op, a, head / a.H, head % a.H, task % blocks * kQueries, scores + thread * slice);
  });
}

void RunAttention(const AttentionBackward& op, Scratch& scratch) {
  const Shape a(op);
  const int64_t slice = (2 * kQueries + 1) * RoundUp(a.S);
  float* weights = scratch.Get<float>(slice * Threads());
  ParallelFor(a.B * a.H, [&](int64_t head, int thread) {
    BackwardHead(op, a, head / a.H, head % a.H, weights + thread * slice);
  });
}

}  // namespace folio::cpu
