#pragma once

// The matrix products of attention tile by tile, and the softmax in the form that they take it, one
// class for each dtype of q, k and v. A tile is (keys, queries); what a product gives for queries
// has a column for each, kScoreQueries apart. All on the thread that made the object.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "folio/backend/cpu/attention_moves.h"
#include "folio/backend/cpu/attention_tiles.h"
#include "folio/backend/cpu/bf16_product.h"
#include "folio/backend/cpu/scratch.h"
#include "folio/backend/ops.h"

namespace folio::cpu {

// The sizes of an AttentionForward or AttentionBackward, and which query sees which key.
struct AttentionSizes {
  int64_t B, T, S, H, G, D;
  bool causal;
  float scale;
  const uint8_t* key_mask;
  const uint8_t* allowed;  // the mask, of either kind
  const float* added;
  int64_t mask_stride;  // from one sequence's (T,S) to the next, 0 if one is for all

  template <class Op>
  explicit AttentionSizes(const Op& op)
      : B(op.q.B),
        T(op.q.T),
        S(op.k.T),
        H(op.H),
        G(KeyHeads(op.H, op.G)),
        D(op.q.C / op.H),
        causal(op.causal),
        scale(static_cast<float>(1 / std::sqrt(static_cast<double>(D)))),
        key_mask(op.key_mask.template data<uint8_t>()),
        allowed(IsBytes(op.mask) ? op.mask.template data<uint8_t>() : nullptr),
        added(op.mask && !allowed ? op.mask.template data<float>() : nullptr),
        mask_stride(op.mask && op.mask.dim(0) > 1 ? T * S : 0) {}

  // Query t may attend to keys [0, Keys(t)).
  int64_t Keys(int64_t t) const { return causal ? std::clamp<int64_t>(t + S - T + 1, 0, S) : S; }
  int64_t KeyHead(int64_t h) const { return h / (H / G); }
  int64_t FirstHead(int64_t g) const { return g * (H / G); }
  // Number of a query among all, which is its row in lse and in dropout's array.
  int64_t Row(int64_t b, int64_t h, int64_t t) const { return (b * H + h) * T + t; }
  bool masked() const { return allowed != nullptr || added != nullptr; }
  // A score, scaled already, with the mask.
  float Masked(float score, int64_t b, int64_t t, int64_t s) const {
    const int64_t at = b * mask_stride + t * S + s;
    const bool hidden =
        added != nullptr ? added[at] <= float(AttentionForward::kHidden) : allowed[at] == 0;
    if (hidden) return -std::numeric_limits<float>::infinity();
    return added != nullptr ? score + added[at] : score;
  }
  const uint8_t* KeyMask(int64_t b) const {
    return key_mask == nullptr ? nullptr : key_mask + b * S;
  }

  // The block of queries that begins at t; a key sees no query of a block before FirstBlock(s).
  int64_t Blocks() const { return (T + kScoreQueries - 1) / kScoreQueries; }
  int64_t Queries(int64_t t) const { return std::min(kScoreQueries, T - t); }
  int64_t FirstBlock(int64_t s) const {
    return causal ? std::max<int64_t>(0, s - (S - T)) / kScoreQueries : 0;
  }
  // Keys of the tile at (s, t) that some of its queries may attend to; may be none.
  int64_t TileKeys(int64_t s, int64_t t) const {
    return std::min(kScoreKeys, Keys(t + Queries(t) - 1) - s);
  }
  ScoreTile Tile(const Dropout& dropout, int64_t b, int64_t h, int64_t s, int64_t t) const {
    const int64_t keys = TileKeys(s, t);
    return {.keys = keys,
            .queries = Queries(t),
            .seen = causal ? t + S - T + 1 - s : keys,
            .key_mask = key_mask == nullptr ? nullptr : KeyMask(b) + s,
            .scale = masked() ? 1 : scale,  // with a mask, tiles are scaled before
            .dropout = dropout,
            .dropout_row = Row(b, h, t),
            .dropout_width = S,
            .dropout_column = s};
  }

 private:
  static bool IsBytes(const Tensor& mask) { return mask && mask.dtype() == Dtype::kU8; }
};

// A (rows, D) part of one head, as a matrix operand.
struct HeadRows {
  float* data;
  int64_t stride;
};
inline HeadRows HeadOf(const SequenceView& x, int64_t b, int64_t t, int64_t h, int64_t D) {
  return {x.row<float>(b, t) + h * D, x.row_stride};
}

// The tile of keys [s, s + keys) and queries [t, t + queries), of which query t + c sees the first
// seen + c keys. What no query sees need not be computed, and is not read.
struct TilePlace {
  int64_t s = 0, keys = 0, t = 0, queries = 0, seen = 0;

  // How many keys some query before column `end` sees, and the first query that sees key `row`.
  int64_t KeysBefore(int64_t end) const { return std::clamp<int64_t>(seen + end - 1, 0, keys); }
  int64_t FirstQuery(int64_t row) const { return std::clamp<int64_t>(row + 1 - seen, 0, queries); }
};

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
