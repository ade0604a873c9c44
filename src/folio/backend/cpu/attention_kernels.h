#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/backend/ops.h"
#include "folio/tensor/dtype.h"

namespace folio::cpu {

// Tiles of one head's scores, on the calling thread: a row for each key and a column for each
// query, rows being kScoreQueries apart, so that everything for one query is in one lane of
// vectors. Memory is aligned to 64 bytes and has room for a whole tile.

inline constexpr int64_t kScoreQueries = 64, kScoreKeys = 64;
inline constexpr int64_t kScoreElements = kScoreQueries * kScoreKeys;

struct ScoreTile {
  int64_t keys = 0, queries = 0;  // >= 1
  // Query c may attend to the keys [past + c, seen + c) of the tile; both may be negative.
  int64_t past = 0, seen = 0;
  const uint8_t* key_mask = nullptr;  // (keys), or null; keys with 0 are masked
  float scale = 1;                    // score = scale * q . k
  const float* slopes = nullptr;      // from CapTile, or null
  Dropout dropout = {};
  // The tile begins at (dropout_row, dropout_column) of dropout's array, which is dropout_width
  // wide. REQUIRES: dropout_column is a multiple of 64.
  int64_t dropout_row = 0, dropout_width = 0, dropout_column = 0;
};

// The running softmax of a block of queries over its tiles: M. Milakov, N. Gimelshein,
// arXiv:1805.02867.
struct alignas(64) SoftmaxState {
  float max[kScoreQueries];      // of the scores so far
  float sum[kScoreQueries];      // of exp(score - max)
  float rescale[kScoreQueries];  // exp(max before the last tile - max), for sums made before it
  bool rescaled = false;         // true if any of these is not 1

  void Reset();
};

// Replaces q . k of the next tile by the weights exp(score - max) after dropout, 0 for masked keys:
// in place, or packed as the right operand (keys, queries) of a PackedProduct with kPackedKeys to
// the next column of tiles.
void SoftmaxTile(const ScoreTile& tile, float* scores, SoftmaxState& state);
void SoftmaxTile(const ScoreTile& tile, const float* scores, SoftmaxState& state, BF16* packed);
inline constexpr int64_t kPackedKeys = kScoreKeys * 16;

// Replaces q . k by the scores cap * tanh(scale * q . k / cap), so that the tile's scale is 1
// afterwards. If `slopes` is not null it receives their derivatives with respect to q . k.
void CapTile(const ScoreTile& tile, float cap, float scale, float* scores, float* slopes);

// Replaces q . k by the weights exp(score - lse), before dropout. For lse see GradientTile.
void WeightsTile(const ScoreTile& tile, const float* lse, float* scores);

// From q . k and d_out . v, computes the weights exp(score - lse) after dropout and the gradients
// of q . k. lse and delta, the dot product of d_out and out, have kScoreQueries entries; lse is
// infinity for queries that attend to nothing and for those that do not exist. The second form
// packs them, as the left operand (keys, queries) of a PackedProduct with kPackedQueries to the
// next row of tiles, whose depth is in the order of PackFolded, and as the right operand (keys,
// queries) like SoftmaxTile.
struct PackedGradients {
  BF16* weights_left = nullptr;
  BF16* grads_left = nullptr;
  BF16* grads_right = nullptr;
};
void GradientTile(const ScoreTile& tile, const float* lse, const float* delta, float* scores,
                  float* grads);
void GradientTile(const ScoreTile& tile, const float* lse, const float* delta, const float* scores,
                  const float* grads, const PackedGradients& packed);
inline constexpr int64_t kPackedQueries = kScoreQueries * 16;

// Operations of attention on rows of scores, of queries and of keys, on the calling thread.

// ---- Rows of scores ----------------------------------------------------------------------------

// Replaces `keys` scores by softmax weights; returns the log of the sum of exp(score), -infinity if
// all keys are masked (the weights are then zero). key_mask (keys) may be null; keys with 0 are
// masked.
float SoftmaxRow(float* scores, int64_t keys, const uint8_t* key_mask);

// row *= dropout factors, for columns [column, column + keys); row and width are those of ops.h.
// REQUIRES: column is a multiple of 64.
void DropoutRow(const Dropout& dropout, int64_t dropout_row, int64_t width, int64_t column,
                int64_t keys, float* row);

// x = cap * tanh(x / cap), for n numbers.
void CapRow(float cap, int64_t n, float* x);

// Keys or values of one head: rows of D numbers, `stride` apart.
struct KeyRows {
  const void* data;
  Dtype dtype;  // F32 or BF16
  int64_t stride;
};

// Scores of `heads` heads of queries (heads,D) that share keys: scores[h * stride + s] = scale *
// q[h] . k[s]
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

// dots[t] = x[b,t] . y[b,t], over D columns from `column` on, for sequences of float or BF16.
void DotRows(const SequenceView& x, const SequenceView& y, int64_t b, int64_t column, int64_t D,
             float* dots);

}  // namespace folio::cpu
