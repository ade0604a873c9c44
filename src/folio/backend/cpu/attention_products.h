#pragma once

// The matrix products of attention tile by tile, and the softmax in the form that they take it, one
// class for each dtype of q, k and v. A tile is (keys, queries); what a product gives for queries
// has a column for each, kScoreQueries apart. All on the thread that made the object.

#include <cstdint>

#include "folio/backend/cpu/attention_moves.h"
#include "folio/backend/cpu/attention_sizes.h"
#include "folio/backend/cpu/attention_tiles.h"
#include "folio/backend/cpu/bf16_product.h"
#include "folio/backend/cpu/scratch.h"
#include "folio/backend/ops.h"

namespace folio::cpu {

class FloatForward {
 public:
  using Number = float;
  FloatForward(const AttentionForward& op, const AttentionSizes& sizes, ScratchParts& parts);

  void SetHead(int64_t b, int64_t h) { b_ = b, h_ = h; }
  void SetQueries(int64_t t, int64_t queries);
  void Scores(const TilePlace& at, float* scores);  // q . k
  void Softmax(const ScoreTile& tile, float* scores, SoftmaxState& state);
  // context (D, queries) = v^T weights of the last Softmax, or += if `accumulate`.
  void Context(const TilePlace& at, const float* weights, bool accumulate, float* context);

  static int64_t TasksOfHead(const AttentionSizes& sizes) { return sizes.Blocks(); }

 private:
  const AttentionForward& op_;
  const AttentionSizes& sizes_;
  float* queries_;  // (D, kScoreQueries)
  int64_t b_ = 0, h_ = 0;
};

class Bf16Forward {
 public:
  using Number = BF16;
  Bf16Forward(const AttentionForward& op, const AttentionSizes& sizes, ScratchParts& parts);

  void SetHead(int64_t b, int64_t h);
  void SetQueries(int64_t t, int64_t queries);
  void Scores(const TilePlace& at, float* scores);
  void Softmax(const ScoreTile& tile, float* scores, SoftmaxState& state);
  void Context(const TilePlace& at, const float* weights, bool accumulate, float* context);

  // Each of them packs the head's keys and values, which only pays off for many queries.
  static int64_t TasksOfHead(const AttentionSizes& sizes);

 private:
  const AttentionForward& op_;
  const AttentionSizes& sizes_;
  BF16 *keys_, *values_, *queries_, *weights_;
  int64_t b_ = 0, h_ = 0;
  PackedMultiplier multiplier_;
};

// Sums of the backward, in float32. Rows of d_k and d_v are `width` apart, and those of a block of
// d_q, which has a row for each of D channels, kScoreQueries.
struct GradientSums {
  int64_t width = 0;     // D, rounded up to 16
  float* d_q = nullptr;  // (blocks, width, kScoreQueries)
  float* d_k = nullptr;  // (S, width), S rounded up to 16
  float* d_v = nullptr;

  float* QueryBlock(int64_t t) const { return d_q + t * width; }
};

class FloatBackward {
 public:
  using Number = float;
  FloatBackward(const AttentionBackward& op, const AttentionSizes& sizes, ScratchParts& parts);

  void SetKeys(int64_t b, int64_t g) { b_ = b, g_ = g; }
  void SetQueries(int64_t h);
  void Scores(const TilePlace& at, float* scores);  // q . k
  void Grads(const TilePlace& at, float* grads);    // d_out . v
  void Gradient(const ScoreTile& tile, const float* lse, const float* delta, float* scores,
                float* grads);
  // Adds what the tile of the last Gradient gives: weights and gradients of q . k are in `scores`
  // and `grads` where Gradient left them.
  void Collect(const TilePlace& at, const float* scores, const float* grads,
               const GradientSums& sums);

 private:
  const AttentionBackward& op_;
  const AttentionSizes& sizes_;
  float *queries_, *d_outs_;  // (blocks, D, kScoreQueries)
  int64_t b_ = 0, g_ = 0, h_ = 0;
};

class Bf16Backward {
 public:
  using Number = BF16;
  Bf16Backward(const AttentionBackward& op, const AttentionSizes& sizes, ScratchParts& parts);

  void SetKeys(int64_t b, int64_t g);
  void SetQueries(int64_t h);
  void Scores(const TilePlace& at, float* scores);
  void Grads(const TilePlace& at, float* grads);
  void Gradient(const ScoreTile& tile, const float* lse, const float* delta, float* scores,
                float* grads);
  void Collect(const TilePlace& at, const float* scores, const float* grads,
               const GradientSums& sums);

 private:
  const AttentionBackward& op_;
  const AttentionSizes& sizes_;
  BF16 *keys_, *keys_turned_, *values_;    // left; the turned one is (D, S)
  BF16 *queries_, *d_outs_;                // right, (T, D), folded
  BF16 *queries_turned_, *d_outs_turned_;  // right, (D, T)
  PackedGradients packed_;
  int64_t b_ = 0;
  PackedMultiplier multiplier_;
};

}  // namespace folio::cpu
