#pragma once

#include <cstdint>

#include "folio/backend/ops.h"
#include "folio/tensor/dtype.h"

namespace folio::cpu {

// Tiles of one head's scores, on the calling thread: a row for each key and a column for each
// query, rows being kScoreQueries apart, so that what belongs to a query runs down a lane of a
// vector. Memory is aligned to 64 bytes and has room for a whole tile.

inline constexpr int64_t kScoreQueries = 64, kScoreKeys = 64;
inline constexpr int64_t kScoreElements = kScoreQueries * kScoreKeys;

struct ScoreTile {
  int64_t keys = 0, queries = 0;  // >= 1
  int64_t seen = 0;  // query c may attend to the first seen + c keys of the tile; may be negative
  const uint8_t* key_mask = nullptr;  // (keys), or null; where it is 0 the key does not count
  float scale = 1;                    // score = scale * q . k
  Dropout dropout = {};
  // The tile begins at (dropout_row, dropout_column) of dropout's array, which is dropout_width
  // wide. REQUIRES: dropout_column is a multiple of 64.
  int64_t dropout_row = 0, dropout_width = 0, dropout_column = 0;
};

// The softmax of a block of queries while its tiles go by: M. Milakov, N. Gimelshein,
// arXiv:1805.02867.
struct alignas(64) SoftmaxState {
  float max[kScoreQueries];      // of the scores so far
  float sum[kScoreQueries];      // of exp(score - max)
  float rescale[kScoreQueries];  // exp(max before the last tile - max), for sums made before it
  bool rescaled = false;         // whether any of these is not 1

  void Reset();
};

// Takes q . k of the next tile and gives the weights exp(score - max) after dropout, 0 where a
// query may not attend: in place, or packed as the right (keys, queries) of a PackedProduct with
// kPackedKeys to the next column of tiles.
void SoftmaxTile(const ScoreTile& tile, float* scores, SoftmaxState& state);
void SoftmaxTile(const ScoreTile& tile, const float* scores, SoftmaxState& state, BF16* packed);
inline constexpr int64_t kPackedKeys = kScoreKeys * 16;

// Replaces q . k by the weights exp(score - lse), before dropout. For lse see GradientTile.
void WeightsTile(const ScoreTile& tile, const float* lse, float* scores);

// From q . k and d_out . v, the weights exp(score - lse) after dropout and the gradients of q . k.
// lse and delta, the dot product of d_out and out, are of kScoreQueries queries; lse is infinity
// for those that attend to nothing and for those that do not exist. The second form packs, as the
// left (keys, queries) of a PackedProduct with kPackedQueries to the next row of tiles, whose depth
// is in the order of PackFolded, and as the right (keys, queries) like SoftmaxTile.
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

}  // namespace folio::cpu
