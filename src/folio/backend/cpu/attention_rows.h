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

// scores[t * stride + s] = scale * (q row t) . (k row s), rows being D long. A query's scores are
// the same beside any others.
void ScoreRows(const HeadRows& q, int64_t queries, const HeadRows& k, int64_t keys, int64_t D,
               float scale, float* scores, int64_t stride);

// out (D) = the sum over s, in order, of weights[s] * (v row s).
void CombineRows(const float* weights, const HeadRows& v, int64_t keys, int64_t D, float* out);

// row *= dropout factors, over `keys` columns.
void DropoutRow(const Dropout& dropout, int64_t dropout_row, int64_t width, int64_t keys,
                float* row);

}  // namespace folio::cpu
