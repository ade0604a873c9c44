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

// Several heads of one query and their keys, which lie beside each other, D channels each: so many
// heads of keys, each for `shared` heads of queries.
struct HeadGroup {
  int64_t key_heads = 1, shared = 1, D = 0;
};

// scores[h * stride + s] = scale * (head h of q) . (its head of k's row s).
void ScoreRows(const HeadGroup& group, const float* q, const HeadRows& k, int64_t keys, float scale,
               float* scores, int64_t stride);

// Head h of out = the sum over s, in order, of weights[h * stride + s] * (its head of v's row s).
void CombineRows(const HeadGroup& group, const float* weights, int64_t stride, const HeadRows& v,
                 int64_t keys, float* out);

// row *= dropout factors, over `keys` columns.
void DropoutRow(const Dropout& dropout, int64_t dropout_row, int64_t width, int64_t keys,
                float* row);

}  // namespace folio::cpu
