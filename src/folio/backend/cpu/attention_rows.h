#pragma once

#include <cstdint>

#include "folio/backend/cpu/attention_sizes.h"
#include "folio/backend/ops.h"

namespace folio::cpu {

// Rows of attention scores, on the calling thread. A row has `keys` scores that count and is
// `columns` long; what lies beyond the keys is set to zero. key_mask (keys) may be null; where it
// is 0 the key does not count. Dropout's row and width are those of ops.h.

// Replaces scores by softmax weights; returns the log of the sum of exp(score), -infinity if no key
// counts (the weights are then zero).
float SoftmaxRow(float* scores, int64_t keys, int64_t columns, const uint8_t* key_mask);

// Keys or values of one head: rows of D floats or BF16, `stride` apart.
template <class T>
struct KeyRows {
  const T* data;
  int64_t stride;
};

// ScoreRows scores `heads` heads of queries (heads,D) that share keys:
// scores[h * stride + s] = scale * q[h] . k[s]
void ScoreRows(const float* q, int64_t heads, int64_t D, KeyRows<float> k, int64_t keys,
               float scale, float* scores, int64_t stride);
void ScoreRows(const float* q, int64_t heads, int64_t D, KeyRows<BF16> k, int64_t keys, float scale,
               float* scores, int64_t stride);

// out[h] += the sum over s, in order, of weights[h * stride + s] * v[s]; out is (heads,D).
void CombineRows(const float* weights, int64_t stride, int64_t heads, int64_t D, KeyRows<float> v,
                 int64_t keys, float* out);
void CombineRows(const float* weights, int64_t stride, int64_t heads, int64_t D, KeyRows<BF16> v,
                 int64_t keys, float* out);

// row *= dropout factors, over `keys` columns.
void DropoutRow(const Dropout& dropout, int64_t dropout_row, int64_t width, int64_t keys,
                float* row);

}  // namespace folio::cpu
