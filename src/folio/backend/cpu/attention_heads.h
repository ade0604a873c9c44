#pragma once

#include <algorithm>
#include <cstdint>

#include "folio/backend/attention_ops.h"
#include "folio/base/parallel.h"
#include "folio/tensor/tensor.h"

namespace folio::cpu {

// Queries, or keys, that attention treats together, as the rows of one matrix product.
inline constexpr int64_t kBlock = 64;

// A (rows, D) part of one head, as a matrix operand.
struct HeadRows {
  float* data;
  int64_t stride;
};
inline HeadRows HeadOf(const SequenceView& x, int64_t b, int64_t t, int64_t h, int64_t D) {
  return {x.row<float>(b, t) + h * D, x.row_stride};
}

// The products of attention, under MatMulOnThread's condition. D >= 1; there may be no queries and
// no keys. Rows of scores and weights are `stride` apart.

// scores (queries, keys) = alpha * x y^T over the head's D channels.
void Products(const HeadRows& x, int64_t queries, const HeadRows& y, int64_t keys, int64_t D,
              float alpha, float* scores, int64_t stride);
// to (queries, D) = alpha * weights (queries, keys) x (keys, D).
void Combine(const float* weights, int64_t stride, int64_t queries, int64_t keys, const HeadRows& x,
             int64_t D, float alpha, const HeadRows& to);
// to (keys, D) = beta * to + alpha * weights^T (keys, queries) x (queries, D), beta 0 or 1.
void Collect(const float* weights, int64_t stride, int64_t queries, int64_t keys, const HeadRows& x,
             int64_t D, float alpha, float beta, const HeadRows& to);

// Queries [t, t + queries) of one head, and the head of keys and values that it shares.
struct QueryBlock {
  int64_t b, h, g, t, queries;
};
// Calls f(QueryBlock) for every block of every head of the (B,T,H*D) view, on all threads.
template <class F>
void ForQueryBlocks(const SequenceView& queries, int64_t H, int64_t G, F&& f) {
  const int64_t blocks = (queries.T + kBlock - 1) / kBlock, share = H / KeyHeads(H, G);
  ParallelFor(queries.B * H * blocks, [&](int64_t task, int) {
    const int64_t head = task / blocks, h = head % H, t = task % blocks * kBlock;
    f(QueryBlock{head / H, h, h / share, t, std::min(kBlock, queries.T - t)});
  });
}

// Keys [s, s + keys) of one head of keys and values, and the heads of queries that share it.
struct KeyBlock {
  int64_t b, g, s, keys, first_head, last_head;  // last_head is the one after
};
template <class F>
void ForKeyBlocks(const SequenceView& keys, int64_t H, int64_t G, F&& f) {
  const int64_t heads = KeyHeads(H, G), share = H / heads;
  const int64_t blocks = (keys.T + kBlock - 1) / kBlock;
  ParallelFor(keys.B * heads * blocks, [&](int64_t task, int) {
    const int64_t head = task / blocks, g = head % heads, s = task % blocks * kBlock;
    f(KeyBlock{head / heads, g, s, std::min(kBlock, keys.T - s), g * share, (g + 1) * share});
  });
}

}  // namespace folio::cpu
