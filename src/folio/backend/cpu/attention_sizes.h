#pragma once

// This header describes what an attention works on: its sizes, which query sees which key, and
// where a tile of it lies.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "folio/backend/cpu/attention_tiles.h"
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
        scale(static_cast<float>(op.scale != 0 ? op.scale : 1 / std::sqrt(static_cast<double>(D)))),
        key_mask(op.key_mask.template data<uint8_t>()),
        allowed(IsBytes(op.mask) ? op.mask.template data<uint8_t>() : nullptr),
        added(op.mask && !allowed ? op.mask.template data<float>() : nullptr),
        mask_stride(op.mask && op.mask.dim(0) > 1 ? T * S : 0) {}

  // Query t may attend to keys [0, Keys(t)).
  int64_t Keys(int64_t t) const { return causal ? std::clamp<int64_t>(t + S - T + 1, 0, S) : S; }
  int64_t KeyHead(int64_t h) const { return h / (H / G); }
  int64_t FirstHead(int64_t g) const { return g * (H / G); }
  // Number of a query among all, which is its row in lse.
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
            .dropout_row = dropout.Row(b, h, t, H, T),
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

  // KeysBefore is how many keys some query before column `end` sees, FirstQuery the first query
  // that sees key `row`.
  int64_t KeysBefore(int64_t end) const { return std::clamp<int64_t>(seen + end - 1, 0, keys); }
  int64_t FirstQuery(int64_t row) const { return std::clamp<int64_t>(row + 1 - seen, 0, queries); }
};

}  // namespace folio::cpu
