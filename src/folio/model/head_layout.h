#pragma once

#include <array>
#include <cstdint>

#include "folio/model/shard.h"
#include "folio/tensor/tensor.h"

namespace folio {

// Columns [begin, begin + width) of a matrix.
struct ColumnRange {
  int64_t begin = 0, width = 0;

  int64_t end() const { return begin + width; }
};

// The heads of self-attention, and the places of queries, keys and values in rows of the fused
// projection: q | k | v, each head by head. H / K heads of queries share one of keys and values: J.
// Ainslie et al., arXiv:2305.13245.
struct HeadLayout {
  int64_t query_heads = 1;  // H
  int64_t kv_heads = 1;     // K, divides H
  int64_t head_dim = 1;     // D

  int64_t q_width() const { return query_heads * head_dim; }
  int64_t kv_width() const { return kv_heads * head_dim; }  // of k, and of v
  int64_t qkv_width() const { return q_width() + 2 * kv_width(); }

  ColumnRange q() const { return {0, q_width()}; }
  ColumnRange k() const { return {q_width(), kv_width()}; }
  ColumnRange v() const { return {q_width() + kv_width(), kv_width()}; }
  std::array<ColumnRange, 3> columns() const { return {q(), k(), v()}; }
  // The columns of one head of queries, and of the keys and values that it reads.
  ColumnRange q(int64_t head) const { return {head * head_dim, head_dim}; }
  ColumnRange k(int64_t head) const { return OfKvHead(k(), head); }
  ColumnRange v(int64_t head) const { return OfKvHead(v(), head); }

  // The layout of a shard, which has its share of both kinds of heads.
  HeadLayout ShardOf(const Shard& shard) const {
    return {shard.Size(query_heads), shard.Size(kv_heads), head_dim};
  }
  // Pages of the KV cache, of R positions each (ops.h).
  Shape Pages(int64_t pages, int64_t R) const { return {pages, kv_heads, 2, R, head_dim}; }

 private:
  ColumnRange OfKvHead(const ColumnRange& all, int64_t head) const {
    return {all.begin + head / (query_heads / kv_heads) * head_dim, head_dim};
  }
};

// Columns of B sequences of T rows.
inline SequenceView View(const Tensor& rows, int64_t B, int64_t T, const ColumnRange& columns) {
  return {rows, B, T, columns.begin, columns.width};
}

}  // namespace folio
