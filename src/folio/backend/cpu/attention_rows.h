#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/backend/ops.h"
#include "folio/tensor/dtype.h"

namespace folio::cpu {

// What attention does with rows of scores, of queries and of keys, on the calling thread.

// ---- Rows of scores ----------------------------------------------------------------------------

// Replaces `keys` scores by softmax weights; returns the log of the sum of exp(score), -infinity if
// no key counts (the weights are then zero). key_mask (keys) may be null; where it is 0 the key
// does not count.
float SoftmaxRow(float* scores, int64_t keys, const uint8_t* key_mask);

// row *= dropout factors, over `keys` columns; row and width are those of ops.h.
void DropoutRow(const Dropout& dropout, int64_t dropout_row, int64_t width, int64_t keys,
                float* row);

// Keys or values of one head: rows of D numbers, `stride` apart.
struct KeyRows {
  const void* data;
  Dtype dtype;  // F32 or BF16
  int64_t stride;
};

// ScoreRows scores `heads` heads of queries (heads,D) that share keys:
// scores[h * stride + s] = scale * q[h] . k[s]
void ScoreRows(const float* q, int64_t heads, int64_t D, const KeyRows& k, int64_t keys,
               float scale, float* scores, int64_t stride);

// out[h] += the sum over s, in order, of weights[h * stride + s] * v[s]; out is (heads,D).
void CombineRows(const float* weights, int64_t stride, int64_t heads, int64_t D, const KeyRows& v,
                 int64_t keys, float* out);

// ---- Rows of anything --------------------------------------------------------------------------

// x[r * columns + c] *= factors[c]. REQUIRES: columns is a multiple of 16.
void ScaleColumns(const float* factors, int64_t rows, int64_t columns, float* x);

// to[c * to_stride + r] = x[r * stride + c]; the second form rounds, by way of (columns, rows)
// floats of scratch.
void Transpose(const float* x, int64_t stride, int64_t rows, int64_t columns, float* to,
               int64_t to_stride);
void Transpose(const float* x, int64_t stride, int64_t rows, int64_t columns, BF16* to,
               int64_t to_stride, float* scratch);

// to[r * to_stride + c] = x[r * stride + c].
void CopyRows(const float* x, int64_t stride, int64_t rows, int64_t columns, float* to,
              int64_t to_stride);
void CopyRows(const float* x, int64_t stride, int64_t rows, int64_t columns, BF16* to,
              int64_t to_stride);

// dots[t] = x[b,t] . y[b,t], over D columns from `column` on, of sequences of float or BF16.
void DotRows(const SequenceView& x, const SequenceView& y, int64_t b, int64_t column, int64_t D,
             float* dots);

}  // namespace folio::cpu
