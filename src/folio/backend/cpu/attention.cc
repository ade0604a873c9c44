// T. Dao et al., "FlashAttention", arXiv:2205.14135: each thread has one tile of scores at a time,
// and tiles removed by the causal mask or a window are skipped.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "folio/backend/cpu/attention_kernels.h"
#include "folio/backend/cpu/bf16_product.h"
#include "folio/backend/cpu/kernels.h"
#include "folio/backend/cpu/matmul.h"
#include "folio/backend/cpu/stored_numbers.h"
#include "folio/backend/ops.h"
#include "folio/base/thread_pool.h"
#include "folio/tensor/dtype.h"

namespace folio::cpu {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// ---- Sizes and places --------------------------------------------------------------------------

// The sizes of an AttentionForward or AttentionBackward, and which keys each query attends to.
struct AttentionSizes {
  int64_t B, T, S, H, G, D;
  bool causal;
  int64_t window;  // S + T, which hides nothing, if there is none
  float scale, cap;
  const uint8_t* key_mask;
  const uint8_t* allowed;  // the mask, of either kind
  const float* added;
  int64_t mask_stride;  // from one sequence's (T,S) to the next, 0 if all share one

  template <class Op>
  explicit AttentionSizes(const Op& op)
      : B(op.q.B),
        T(op.q.T),
        S(op.k.T),
        H(op.H),
        G(KeyHeads(op.H, op.G)),
        D(op.q.C / op.H),
        causal(op.causal),
        window(op.window == 0 ? S + T : std::min(op.window, S + T)),
        scale(static_cast<float>(op.scale != 0 ? op.scale : 1 / std::sqrt(static_cast<double>(D)))),
        cap(static_cast<float>(op.cap)),
        key_mask(op.key_mask.template data<uint8_t>()),
        allowed(IsBytes(op.mask) ? op.mask.template data<uint8_t>() : nullptr),
        added(op.mask && !allowed ? op.mask.template data<float>() : nullptr),
        mask_stride(op.mask && op.mask.dim(0) > 1 ? T * S : 0) {}

  // Query t may attend to keys [FirstKey(t), Keys(t)).
  int64_t Keys(int64_t t) const { return causal ? std::clamp<int64_t>(t + S - T + 1, 0, S) : S; }
  int64_t FirstKey(int64_t t) const { return std::max<int64_t>(0, Keys(t) - window); }
  // The begin of the tile with the first key, where dropout can begin too.
  int64_t FirstTile(int64_t t) const { return FirstKey(t) / kScoreKeys * kScoreKeys; }
  int64_t KeyHead(int64_t h) const { return h / (H / G); }
  int64_t FirstHead(int64_t g) const { return g * (H / G); }
  // Index of a query among all: its row in lse.
  int64_t Row(int64_t b, int64_t h, int64_t t) const { return (b * H + h) * T + t; }
  bool masked() const { return allowed != nullptr || added != nullptr; }
  bool capped() const { return cap > 0; }
  // An already scaled score with the mask.
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

  // The number of the block of queries that begins at t; only queries in blocks [FirstBlock(s),
  // EndBlock(s)) attend to keys of the tile at s.
  int64_t Blocks() const { return (T + kScoreQueries - 1) / kScoreQueries; }
  int64_t Queries(int64_t t) const { return std::min(kScoreQueries, T - t); }
  int64_t FirstBlock(int64_t s) const {
    return causal ? std::max<int64_t>(0, s - (S - T)) / kScoreQueries : 0;
  }
  int64_t EndBlock(int64_t s) const {
    const int64_t end = s + kScoreKeys - 1 + window - (S - T);
    return causal ? (std::clamp<int64_t>(end, 0, T) + kScoreQueries - 1) / kScoreQueries : Blocks();
  }
  // How many keys of the tile at (s, t) some of its queries may attend to; may be 0.
  int64_t TileKeys(int64_t s, int64_t t) const {
    return std::min(kScoreKeys, Keys(t + Queries(t) - 1) - s);
  }
  ScoreTile Tile(const Dropout& dropout, int64_t b, int64_t h, int64_t s, int64_t t) const {
    const int64_t keys = TileKeys(s, t);
    return {.keys = keys,
            .queries = Queries(t),
            .past = causal ? t + S - T + 1 - s - window : -kScoreQueries,
            .seen = causal ? t + S - T + 1 - s : keys,
            .key_mask = key_mask == nullptr ? nullptr : KeyMask(b) + s,
            .scale = masked() || capped() ? 1 : scale,  // masked or capped tiles are scaled before
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

// The tile of keys [s, s + keys) and queries [t, t + queries), in which query t + c attends to keys
// [past + c, seen + c). Keys that no query attends to need not be computed, and are not read.
struct TilePlace {
  int64_t s = 0, keys = 0, t = 0, queries = 0, past = 0, seen = 0;

  TilePlace(const ScoreTile& tile, int64_t first_key, int64_t first_query)
      : s(first_key),
        keys(tile.keys),
        t(first_query),
        queries(tile.queries),
        past(tile.past),
        seen(tile.seen) {}

  // Queries of the columns [column, end) attend to rows in [FirstKey(column), KeysBefore(end));
  // keys of the rows [row, end) are attended to by columns in [FirstQuery(row),
  // QueriesBefore(end)).
  int64_t FirstKey(int64_t column) const { return std::clamp<int64_t>(past + column, 0, keys); }
  int64_t KeysBefore(int64_t end) const { return std::clamp<int64_t>(seen + end - 1, 0, keys); }
  int64_t FirstQuery(int64_t row) const { return std::clamp<int64_t>(row + 1 - seen, 0, queries); }
  int64_t QueriesBefore(int64_t end) const { return std::clamp<int64_t>(end - past, 0, queries); }
};

// ---- Products of tiles
// ---------------------------------------------------------------------------

// The matrix products of attention tile by tile, and the softmax in the layout that they need, one
// class for each dtype of q, k and v. A tile is (keys, queries); products for queries have a column
// for each, kScoreQueries apart. All on the thread that made the object.

// Width of the pieces of a tile that the causal mask or a window crosses: so narrow that less than
// half of it is computed in vain.
constexpr int64_t kPiece = 32;

// Calls f(column, columns, first, end) for pieces of the tile that together cover everything
// attended to; each needs only rows [first, end). There may be none.
template <class F>
void ForColumns(const TilePlace& at, F&& f) {
  const bool whole = at.KeysBefore(1) == at.keys && at.FirstKey(at.queries - 1) == 0;
  const int64_t step = whole ? at.queries : kPiece;
  for (int64_t c = 0; c < at.queries; c += step) {
    const int64_t columns = std::min(step, at.queries - c);
    f(c, columns, at.FirstKey(c), at.KeysBefore(c + columns));
  }
}

// tile (keys, queries) = x (keys, D) y (D, queries).
void MultiplyQueries(const TilePlace& at, const HeadRows& x, const float* y, int64_t D,
                     float* tile) {
  ForColumns(at, [&](int64_t column, int64_t columns, int64_t first, int64_t end) {
    if (first >= end) return;
    FloatProduct({.M = end - first,
                  .N = columns,
                  .K = D,
                  .a = x.data + first * x.stride,
                  .lda = x.stride,
                  .b = y + column,
                  .ldb = kScoreQueries,
                  .c = tile + first * kScoreQueries + column,
                  .ldc = kScoreQueries});
  });
}

// to (D, queries) = beta * to + x^T (D, keys) tile (keys, queries).
void SumOverKeys(const TilePlace& at, const HeadRows& x, const float* tile, int64_t D, float beta,
                 float* to) {
  ForColumns(at, [&](int64_t column, int64_t columns, int64_t first, int64_t end) {
    if (first >= end) {
      for (int64_t d = 0; d < D && beta == 0; ++d) {
        std::fill_n(to + d * kScoreQueries + column, columns, 0.0f);
      }
      return;
    }
    FloatProduct({.M = D,
                  .N = columns,
                  .K = end - first,
                  .a = x.data + first * x.stride,
                  .lda = x.stride,
                  .transpose_a = true,
                  .b = tile + first * kScoreQueries + column,
                  .ldb = kScoreQueries,
                  .c = to + column,
                  .ldc = kScoreQueries,
                  .beta = beta});
  });
}

// to (keys, D) += tile (keys, queries) x (queries, D).
void AddOverQueries(const TilePlace& at, const float* tile, const HeadRows& x, int64_t D, float* to,
                    int64_t width) {
  const bool whole = at.FirstQuery(at.keys - 1) == 0 && at.QueriesBefore(1) == at.queries;
  const int64_t step = whole ? at.keys : kPiece;
  for (int64_t row = 0; row < at.keys; row += step) {
    const int64_t rows = std::min(step, at.keys - row);
    const int64_t first = at.FirstQuery(row), end = at.QueriesBefore(row + rows);
    if (first >= end) continue;
    FloatProduct({.M = rows,
                  .N = D,
                  .K = end - first,
                  .a = tile + row * kScoreQueries + first,
                  .lda = kScoreQueries,
                  .b = x.data + first * x.stride,
                  .ldb = x.stride,
                  .c = to + row * width,
                  .ldc = width,
                  .beta = 1});
  }
}

class FloatForward {
 public:
  using Number = float;
  FloatForward(const AttentionForward& op, const AttentionSizes& sizes, ScratchParts& parts)
      : op_(op), sizes_(sizes), queries_(parts.Take<float>(sizes.D * kScoreQueries)) {}

  void SetHead(int64_t b, int64_t h) { b_ = b, h_ = h; }
  void SetQueries(int64_t t, int64_t queries) {
    const HeadRows q = HeadOf(op_.q, b_, t, h_, sizes_.D);
    Transpose(q.data, q.stride, queries, sizes_.D, queries_, kScoreQueries);
  }

  // q . k
  void Scores(const TilePlace& at, float* scores) {
    MultiplyQueries(at, HeadOf(op_.k, b_, at.s, sizes_.KeyHead(h_), sizes_.D), queries_, sizes_.D,
                    scores);
  }

  void Softmax(const ScoreTile& tile, float* scores, SoftmaxState& state) {
    SoftmaxTile(tile, scores, state);
  }

  // context (D, queries) = v^T weights of the last Softmax, or += if `accumulate`.
  void Context(const TilePlace& at, const float* weights, bool accumulate, float* context) {
    SumOverKeys(at, HeadOf(op_.v, b_, at.s, sizes_.KeyHead(h_), sizes_.D), weights, sizes_.D,
                accumulate ? 1 : 0, context);
  }

  static int64_t TasksOfHead(const AttentionSizes& sizes) { return sizes.Blocks(); }

 private:
  const AttentionForward& op_;
  const AttentionSizes& sizes_;
  float* queries_;  // (D, kScoreQueries)
  int64_t b_ = 0, h_ = 0;
};

// Sums of the backward, in float32. Rows of d_k and d_v are `width` apart; those of a block of d_q,
// one for each of D channels, are kScoreQueries apart.
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
  FloatBackward(const AttentionBackward& op, const AttentionSizes& sizes, ScratchParts& parts)
      : op_(op), sizes_(sizes) {
    const int64_t count = sizes.Blocks() * sizes.D * kScoreQueries;
    queries_ = parts.Take<float>(count), d_outs_ = parts.Take<float>(count);
  }

  void SetKeys(int64_t b, int64_t g) { b_ = b, g_ = g; }
  void SetQueries(int64_t h) {
    h_ = h;
    for (int64_t t = 0; t < sizes_.T; t += kScoreQueries) {
      const auto turn = [&](const SequenceView& x, float* to) {
        const HeadRows rows = HeadOf(x, b_, t, h, sizes_.D);
        Transpose(rows.data, rows.stride, sizes_.Queries(t), sizes_.D, to + t * sizes_.D,
                  kScoreQueries);
      };
      turn(op_.q, queries_), turn(op_.d_out, d_outs_);
    }
  }

  // q . k
  void Scores(const TilePlace& at, float* scores) {
    MultiplyQueries(at, HeadOf(op_.k, b_, at.s, g_, sizes_.D), queries_ + at.t * sizes_.D, sizes_.D,
                    scores);
  }

  // d_out . v
  void Grads(const TilePlace& at, float* grads) {
    MultiplyQueries(at, HeadOf(op_.v, b_, at.s, g_, sizes_.D), d_outs_ + at.t * sizes_.D, sizes_.D,
                    grads);
  }

  void Gradient(const ScoreTile& tile, const float* lse, const float* delta, float* scores,
                float* grads) {
    GradientTile(tile, lse, delta, scores, grads);
  }

  // Adds the contribution of the last Gradient's tile: weights and gradients of q . k are in
  // `scores` and `grads`, as Gradient left them.
  void Collect(const TilePlace& at, const float* scores, const float* grads,
               const GradientSums& sums) {
    const int64_t D = sizes_.D, first = at.s * sums.width;
    AddOverQueries(at, scores, HeadOf(op_.d_out, b_, at.t, h_, D), D, sums.d_v + first, sums.width);
    AddOverQueries(at, grads, HeadOf(op_.q, b_, at.t, h_, D), D, sums.d_k + first, sums.width);
    SumOverKeys(at, HeadOf(op_.k, b_, at.s, g_, D), grads, D, 1, sums.QueryBlock(at.t));
  }

 private:
  const AttentionBackward& op_;
  const AttentionSizes& sizes_;
  float *queries_, *d_outs_;  // (blocks, D, kScoreQueries)
  int64_t b_ = 0, g_ = 0, h_ = 0;
};

// One head's rows from the first on; transposed if `transposed`.
MatrixView<BF16> Bf16Rows(const SequenceView& x, int64_t b, int64_t t, int64_t h, int64_t D,
                          bool transposed) {
  return {x.row<BF16>(b, t) + h * D, x.row_stride, transposed};
}

// The number of elements from one row of tiles of an operand to the next.
int64_t TileStride(int64_t depth) {
  return DepthTiles(depth) * kTileElements;
}

// tile (keys, queries) = left (S, D), from the tile's first key on, times right (D, queries).
void MultiplyChannels(const PackedMultiplier& multiplier, const TilePlace& at, int64_t D,
                      const BF16* left, const BF16* right, float* tile) {
  multiplier.Run({.left = left + PackedElements(at.s, D),
                  .right = right,
                  .left_stride = TileStride(D),
                  .right_stride = TileStride(D),
                  .row_tiles = RowTiles(at.keys),
                  .column_tiles = RowTiles(at.queries),
                  .depth_tiles = DepthTiles(D),
                  .c = tile,
                  .c_stride = kScoreQueries});
}

class Bf16Forward {
 public:
  using Number = BF16;
  Bf16Forward(const AttentionForward& op, const AttentionSizes& sizes, ScratchParts& parts)
      : op_(op),
        sizes_(sizes),
        keys_(parts.Take<BF16>(PackedElements(sizes.S, sizes.D))),
        values_(parts.Take<BF16>(PackedElements(sizes.D, sizes.S))),
        queries_(parts.Take<BF16>(PackedElements(kScoreQueries, sizes.D))),
        weights_(parts.Take<BF16>(kScoreElements)) {}

  void SetHead(int64_t b, int64_t h) {
    b_ = b, h_ = h;
    const int64_t g = sizes_.KeyHead(h), S = sizes_.S, D = sizes_.D;
    if (S == 0) return;
    PackLeft(Bf16Rows(op_.k, b, 0, g, D, false), S, D, keys_);
    PackLeft(Bf16Rows(op_.v, b, 0, g, D, true), D, S, values_);
  }

  void SetQueries(int64_t t, int64_t queries) {
    PackRight(Bf16Rows(op_.q, b_, t, h_, sizes_.D, true), sizes_.D, queries, queries_);
  }

  void Scores(const TilePlace& at, float* scores) {
    MultiplyChannels(multiplier_, at, sizes_.D, keys_, queries_, scores);
  }

  void Softmax(const ScoreTile& tile, float* scores, SoftmaxState& state) {
    SoftmaxTile(tile, scores, state, weights_);
  }

  void Context(const TilePlace& at, const float*, bool accumulate, float* context) {
    multiplier_.Run({.left = values_ + at.s / kTileDepth * kTileElements,
                     .right = weights_,
                     .left_stride = TileStride(sizes_.S),
                     .right_stride = kPackedKeys,
                     .row_tiles = RowTiles(sizes_.D),
                     .column_tiles = RowTiles(at.queries),
                     .depth_tiles = DepthTiles(at.keys),
                     .c = context,
                     .c_stride = kScoreQueries,
                     .accumulate = accumulate});
  }

  // Each task packs the head's keys and values, which only pays off for many queries.
  static int64_t TasksOfHead(const AttentionSizes& sizes) {
    constexpr int64_t kHeads = 16, kBlocks = 4;
    const int64_t wanted =
        (kHeads + sizes.B * sizes.H - 1) / std::max<int64_t>(1, sizes.B * sizes.H);
    return std::clamp<int64_t>(sizes.Blocks() / kBlocks, 1, wanted);
  }

 private:
  const AttentionForward& op_;
  const AttentionSizes& sizes_;
  BF16 *keys_, *values_, *queries_, *weights_;
  int64_t b_ = 0, h_ = 0;
  PackedMultiplier multiplier_;
};

class Bf16Backward {
 public:
  using Number = BF16;
  Bf16Backward(const AttentionBackward& op, const AttentionSizes& sizes, ScratchParts& parts)
      : op_(op), sizes_(sizes) {
    const auto take = [&](int64_t rows, int64_t depth) {
      return parts.Take<BF16>(PackedElements(rows, depth));
    };
    const int64_t T = sizes.T, S = sizes.S, D = sizes.D;
    keys_ = take(S, D), keys_turned_ = take(D, S), values_ = take(S, D);
    queries_ = take(D, T), d_outs_ = take(D, T);
    queries_turned_ = take(T, D), d_outs_turned_ = take(T, D);
    packed_.weights_left = parts.Take<BF16>(kScoreElements);
    packed_.grads_left = parts.Take<BF16>(kScoreElements);
    packed_.grads_right = parts.Take<BF16>(kScoreElements);
  }

  void SetKeys(int64_t b, int64_t g) {
    b_ = b;
    const int64_t S = sizes_.S, D = sizes_.D;
    if (S == 0) return;
    PackLeft(Bf16Rows(op_.k, b, 0, g, D, false), S, D, keys_);
    PackLeft(Bf16Rows(op_.k, b, 0, g, D, true), D, S, keys_turned_);
    PackLeft(Bf16Rows(op_.v, b, 0, g, D, false), S, D, values_);
  }

  void SetQueries(int64_t h) {
    const int64_t T = sizes_.T, D = sizes_.D;
    if (T == 0) return;
    PackFolded(op_.q.row<BF16>(b_, 0) + h * D, op_.q.row_stride, T, D, queries_);
    PackFolded(op_.d_out.row<BF16>(b_, 0) + h * D, op_.d_out.row_stride, T, D, d_outs_);
    PackRight(Bf16Rows(op_.q, b_, 0, h, D, true), D, T, queries_turned_);
    PackRight(Bf16Rows(op_.d_out, b_, 0, h, D, true), D, T, d_outs_turned_);
  }

  void Scores(const TilePlace& at, float* scores) {
    MultiplyChannels(multiplier_, at, sizes_.D, keys_,
                     queries_turned_ + PackedElements(at.t, sizes_.D), scores);
  }

  void Grads(const TilePlace& at, float* grads) {
    MultiplyChannels(multiplier_, at, sizes_.D, values_,
                     d_outs_turned_ + PackedElements(at.t, sizes_.D), grads);
  }

  void Gradient(const ScoreTile& tile, const float* lse, const float* delta, float* scores,
                float* grads) {
    GradientTile(tile, lse, delta, scores, grads, packed_);
  }

  void Collect(const TilePlace& at, const float*, const float*, const GradientSums& sums) {
    const int64_t D = sizes_.D;
    const auto add_over_queries = [&](const BF16* tile, const BF16* x, float* to) {
      multiplier_.Run({.left = tile,
                       .right = x + at.t / kTileDepth * kTileElements,
                       .left_stride = kPackedQueries,
                       .right_stride = TileStride(sizes_.T),
                       .row_tiles = RowTiles(at.keys),
                       .column_tiles = RowTiles(D),
                       .depth_tiles = DepthTiles(at.queries),
                       .c = to + at.s * sums.width,
                       .c_stride = sums.width,
                       .accumulate = true});
    };
    add_over_queries(packed_.weights_left, d_outs_, sums.d_v);
    add_over_queries(packed_.grads_left, queries_, sums.d_k);
    multiplier_.Run({.left = keys_turned_ + at.s / kTileDepth * kTileElements,
                     .right = packed_.grads_right,
                     .left_stride = TileStride(sizes_.S),
                     .right_stride = kPackedKeys,
                     .row_tiles = RowTiles(D),
                     .column_tiles = RowTiles(at.queries),
                     .depth_tiles = DepthTiles(at.keys),
                     .c = sums.QueryBlock(at.t),
                     .c_stride = kScoreQueries,
                     .accumulate = true});
  }

 private:
  const AttentionBackward& op_;
  const AttentionSizes& sizes_;
  BF16 *keys_, *keys_turned_, *values_;    // left operands; the turned one is (D, S)
  BF16 *queries_, *d_outs_;                // right operands, (T, D), folded
  BF16 *queries_turned_, *d_outs_turned_;  // right operands, (D, T)
  PackedGradients packed_;
  int64_t b_ = 0;
  PackedMultiplier multiplier_;
};

// ---- Forward -----------------------------------------------------------------------------------

// The bytes of a Head in the scratch memory of its thread.
template <class Head, class Op>
int64_t BytesOf(const Op& op, const AttentionSizes& sizes) {
  ScratchParts parts(nullptr);
  Head(op, sizes, parts);
  return parts.bytes();
}

// Calls f(row, c, element) for all elements of a tile that are attended to.
template <class F>
void ForSeen(const TilePlace& at, float* x, F&& f) {
  for (int64_t row = 0; row < at.keys; ++row) {
    for (int64_t c = at.FirstQuery(row); c < at.QueriesBefore(row + 1); ++c) {
      f(row, c, x[row * kScoreQueries + c]);
    }
  }
}

// Converts a tile of q . k to scores if the softmax does not do that. `slopes` is as in CapTile.
void ScaleTile(const AttentionSizes& a, int64_t b, const ScoreTile& tile, const TilePlace& at,
               float* scores, float* slopes = nullptr) {
  if (a.capped()) CapTile(tile, a.cap, a.scale, scores, slopes);
  if (!a.masked()) return;
  const float scale = a.capped() ? 1 : a.scale;
  ForSeen(at, scores, [&](int64_t row, int64_t c, float& score) {
    score = a.Masked(score * scale, b, at.t + c, at.s + row);
  });
}

// Processes blocks of queries, one head after the other, with one thread's memory.
template <class Engine>
class ForwardHead {
 public:
  ForwardHead(const AttentionForward& op, const AttentionSizes& sizes, ScratchParts& parts)
      : op_(op),
        a_(sizes),
        products_(op, sizes, parts),
        scores_(parts.Take<float>(kScoreElements)),
        context_(parts.Take<float>(RoundUp(sizes.D, kTileRows) * kScoreQueries)),
        rounding_(parts.Take<float>(sizes.D * kScoreQueries)) {}

  // Blocks first, first + step, ...
  void Run(int64_t b, int64_t h, int64_t first, int64_t step) {
    products_.SetHead(b, h);
    for (int64_t block = first; block < a_.Blocks(); block += step) {
      RunBlock(b, h, block * kScoreQueries);
    }
  }

 private:
  using Number = typename Engine::Number;

  void RunBlock(int64_t b, int64_t h, int64_t t) {
    const int64_t queries = a_.Queries(t), keys = a_.Keys(t + queries - 1);
    const int64_t first = a_.FirstTile(t);
    products_.SetQueries(t, queries);
    state_.Reset();
    for (int64_t s = first; s < keys; s += kScoreKeys) {
      const ScoreTile tile = a_.Tile(op_.dropout, b, h, s, t);
      const TilePlace at(tile, s, t);
      products_.Scores(at, scores_);
      ScaleTile(a_, b, tile, at, scores_);
      products_.Softmax(tile, scores_, state_);
      if (s > first && state_.rescaled) {
        ScaleColumns(state_.rescale, a_.D, kScoreQueries, context_);
      }
      products_.Context(at, scores_, s > first, context_);
    }
    if (keys == 0) std::fill_n(context_, a_.D * kScoreQueries, 0.0f);
    float* lse = op_.lse.data<float>() + a_.Row(b, h, t);
    Finish(queries, lse);
    WriteTransposed(context_, queries, op_.out.row<Number>(b, t) + h * a_.D);
    if (op_.probs) WriteProbs(b, h, t, keys, lse);
  }

  // Divides by the sums of weights; rows without weights become zeros.
  void Finish(int64_t queries, float* lse) {
    for (int64_t c = 0; c < queries; ++c) {
      const float sum = state_.sum[c], max = state_.max[c];
      state_.rescale[c] = 1 / sum;
      lse[c] = (max == -kInfinity ? 0 : max) + std::log(sum);
      if (sum != 0) continue;
      state_.rescale[c] = 0;
      for (int64_t d = 0; d < a_.D; ++d) context_[d * kScoreQueries + c] = 0;
    }
    ScaleColumns(state_.rescale, a_.D, kScoreQueries, context_);
  }

  void WriteTransposed(const float* x, int64_t queries, float* to) {
    Transpose(x, kScoreQueries, a_.D, queries, to, op_.out.row_stride);
  }
  void WriteTransposed(const float* x, int64_t queries, BF16* to) {
    Transpose(x, kScoreQueries, a_.D, queries, to, op_.out.row_stride, rounding_);
  }

  void WriteProbs(int64_t b, int64_t h, int64_t t, int64_t keys, const float* lse) {
    const int64_t queries = a_.Queries(t);
    alignas(64) float shift[kScoreQueries] = {};
    for (int64_t c = 0; c < queries; ++c) shift[c] = lse[c] == -kInfinity ? kInfinity : lse[c];
    float* probs = op_.probs.data<float>() + a_.Row(b, h, t) * a_.S;
    const int64_t first = a_.FirstTile(t);
    for (int64_t s = first; s < keys; s += kScoreKeys) {
      const ScoreTile tile = a_.Tile(op_.dropout, b, h, s, t);
      const TilePlace at(tile, s, t);
      products_.Scores(at, scores_);
      ScaleTile(a_, b, tile, at, scores_);
      WeightsTile(tile, shift, scores_);
      Transpose(scores_, kScoreQueries, tile.keys, queries, probs + s, a_.S);
    }
    for (int64_t c = 0; c < queries; ++c) {
      std::fill_n(probs + c * a_.S, first, 0.0f);
      std::fill(probs + c * a_.S + keys, probs + (c + 1) * a_.S, 0.0f);
    }
  }

  const AttentionForward& op_;
  const AttentionSizes& a_;
  Engine products_;
  float *scores_, *context_;  // (kScoreKeys, kScoreQueries), (D, kScoreQueries)
  float* rounding_;           // (kScoreQueries, D)
  SoftmaxState state_;
};

template <class Engine>
void RunForward(const AttentionForward& op, const AttentionSizes& a, Scratch& scratch) {
  const int64_t bytes = BytesOf<ForwardHead<Engine>>(op, a), share = Engine::TasksOfHead(a);
  std::byte* memory = scratch.Get<std::byte>(bytes * Threads());
  ParallelFor(a.B * a.H * share, [&](int64_t task, int thread) {
    ScratchParts parts(memory + thread * bytes);
    const int64_t head = task / share;
    ForwardHead<Engine>(op, a, parts).Run(head / a.H, head % a.H, task % share, share);
  });
}

// Fewer queries than kFewQueries each have a row of scores, so that no lanes are empty.
constexpr int64_t kFewQueries = 16;

void RunFewQueries(const AttentionForward& op, const AttentionSizes& a, Scratch& scratch) {
  const int64_t stride = RoundUp(a.S, 16), shared = a.H / a.G;
  float* memory = scratch.Get<float>(shared * stride * Threads());
  ParallelFor(a.B * a.T * a.G, [&](int64_t task, int thread) {
    const int64_t b = task / a.G / a.T, t = task / a.G % a.T, g = task % a.G;
    const int64_t first = a.FirstKey(t), end = a.Keys(t), keys = end - first, h = a.FirstHead(g);
    const auto rows = [&](const SequenceView& x) {
      return KeyRows{HeadOf(x, b, first, g, a.D).data, Dtype::kF32, x.row_stride};
    };
    // The scores of the first key's tile begin before it, at a place where dropout can begin.
    const int64_t before = first - a.FirstTile(t);
    float* scores = memory + thread * shared * stride + before;
    ScoreRows(HeadOf(op.q, b, t, h, a.D).data, shared, a.D, rows(op.k), keys, a.scale, scores,
              stride);
    for (int64_t i = 0; i < shared; ++i) {
      float* row = scores + i * stride;
      const int64_t place = a.Row(b, h + i, t);
      if (a.capped()) CapRow(a.cap, keys, row);
      for (int64_t s = 0; a.masked() && s < keys; ++s) row[s] = a.Masked(row[s], b, t, first + s);
      op.lse.data<float>()[place] =
          SoftmaxRow(row, keys, a.key_mask == nullptr ? nullptr : a.KeyMask(b) + first);
      if (op.probs) {
        float* probs = op.probs.data<float>() + place * a.S;
        std::fill_n(probs, first, 0.0f);
        std::copy_n(row, keys, probs + first);
        std::fill(probs + end, probs + a.S, 0.0f);
      }
      if (op.dropout.active()) {
        DropoutRow(op.dropout, op.dropout.Row(b, h + i, t, a.H, a.T), a.S, first - before,
                   before + keys, row - before);
      }
    }
    float* out = HeadOf(op.out, b, t, h, a.D).data;
    std::fill_n(out, shared * a.D, 0.0f);
    CombineRows(scores, stride, shared, a.D, rows(op.v), keys, out);
  });
}

// ---- Backward ----------------------------------------------------------------------------------

// A head of keys and values, with the heads of queries that share it.
template <class Engine>
class BackwardGroup {
 public:
  BackwardGroup(const AttentionBackward& op, const AttentionSizes& sizes, ScratchParts& parts)
      : op_(op), a_(sizes), products_(op, sizes, parts) {
    const int64_t width = RoundUp(a_.D, kTileRows), queries = a_.Blocks() * kScoreQueries;
    const int64_t keys = RoundUp(a_.S, kTileRows);
    sums_.width = width;
    sums_.d_q = parts.Take<float>(queries * width);
    sums_.d_k = parts.Take<float>(keys * width), sums_.d_v = parts.Take<float>(keys * width);
    lse_ = parts.Take<float>(queries), delta_ = parts.Take<float>(queries);
    scores_ = parts.Take<float>(kScoreElements), grads_ = parts.Take<float>(kScoreElements);
    if (a_.capped()) slopes_ = parts.Take<float>(kScoreElements);
    rounding_ = parts.Take<float>(a_.D * kScoreQueries);
  }

  void Run(int64_t b, int64_t g) {
    products_.SetKeys(b, g);
    const int64_t keys = RoundUp(a_.S, kTileRows) * sums_.width;
    std::fill_n(sums_.d_k, keys, 0.0f), std::fill_n(sums_.d_v, keys, 0.0f);
    for (int64_t h = a_.FirstHead(g); h < a_.FirstHead(g + 1); ++h) RunHead(b, h);
    const auto write = [&](const float* sums, const SequenceView& to) {
      if (a_.S == 0) return;
      CopyRows(sums, sums_.width, a_.S, a_.D, to.row<Number>(b, 0) + g * a_.D, to.row_stride);
    };
    write(sums_.d_k, op_.d_k), write(sums_.d_v, op_.d_v);
  }

 private:
  using Number = typename Engine::Number;

  void RunHead(int64_t b, int64_t h) {
    products_.SetQueries(h);
    SetRows(b, h);
    std::fill_n(sums_.d_q, a_.Blocks() * kScoreQueries * sums_.width, 0.0f);
    for (int64_t s = 0; s < a_.S; s += kScoreKeys) {
      for (int64_t block = a_.FirstBlock(s); block < a_.EndBlock(s); ++block) {
        RunTile(b, h, s, block * kScoreQueries);
      }
    }
    for (int64_t t = 0; t < a_.T; t += kScoreQueries) {
      WriteTransposed(sums_.QueryBlock(t), a_.Queries(t), op_.d_q.row<Number>(b, t) + h * a_.D);
    }
  }

  // Sets lse and delta for all queries, in GradientTile's form.
  void SetRows(int64_t b, int64_t h) {
    const int64_t queries = a_.Blocks() * kScoreQueries;
    std::fill_n(lse_, queries, kInfinity), std::fill_n(delta_, queries, 0.0f);
    if (a_.T == 0) return;
    const float* lse = op_.lse.data<float>() + a_.Row(b, h, 0);
    for (int64_t t = 0; t < a_.T; ++t) {
      if (lse[t] != -kInfinity) lse_[t] = lse[t];
    }
    DotRows(op_.out, op_.d_out, b, h * a_.D, a_.D, delta_);
    // The factor of the scores' gradients is already in both of their terms.
    for (int64_t t = 0; scaled_before() && t < a_.T; ++t) delta_[t] *= a_.scale;
  }

  void RunTile(int64_t b, int64_t h, int64_t s, int64_t t) {
    ScoreTile tile = a_.Tile(op_.dropout, b, h, s, t);
    if (tile.keys <= 0) return;
    tile.slopes = slopes_;
    const TilePlace at(tile, s, t);
    products_.Scores(at, scores_);
    products_.Grads(at, grads_);
    ScaleTile(a_, b, tile, at, scores_, slopes_);
    if (scaled_before()) {
      ForSeen(at, grads_, [&](int64_t, int64_t, float& grad) { grad *= a_.scale; });
    }
    products_.Gradient(tile, lse_ + t, delta_ + t, scores_, grads_);
    products_.Collect(at, scores_, grads_, sums_);
  }

  // Returns true if gradients of scores are already scaled by a.scale.
  bool scaled_before() const { return a_.masked() && !a_.capped(); }

  void WriteTransposed(const float* x, int64_t queries, float* to) {
    Transpose(x, kScoreQueries, a_.D, queries, to, op_.d_q.row_stride);
  }
  void WriteTransposed(const float* x, int64_t queries, BF16* to) {
    Transpose(x, kScoreQueries, a_.D, queries, to, op_.d_q.row_stride, rounding_);
  }

  const AttentionBackward& op_;
  const AttentionSizes& a_;
  Engine products_;
  GradientSums sums_;
  float *lse_, *delta_;
  float *scores_, *grads_;   // (kScoreKeys, kScoreQueries)
  float* slopes_ = nullptr;  // the same size, for capped scores
  float* rounding_;          // (kScoreQueries, D)
};

template <class Engine>
void RunBackward(const AttentionBackward& op, const AttentionSizes& a, Scratch& scratch) {
  const int64_t bytes = BytesOf<BackwardGroup<Engine>>(op, a);
  std::byte* memory = scratch.Get<std::byte>(bytes * Threads());
  ParallelFor(a.B * a.G, [&](int64_t group, int thread) {
    ScratchParts parts(memory + thread * bytes);
    BackwardGroup<Engine>(op, a, parts).Run(group / a.G, group % a.G);
  });
}

}  // namespace

void Run(const AttentionForward& op, Scratch& scratch) {
  const AttentionSizes a(op);
  if (op.q.dtype == Dtype::kBF16) return RunForward<Bf16Forward>(op, a, scratch);
  if (a.T < kFewQueries) return RunFewQueries(op, a, scratch);
  RunForward<FloatForward>(op, a, scratch);
}

void Run(const AttentionBackward& op, Scratch& scratch) {
  const AttentionSizes a(op);
  if (op.q.dtype == Dtype::kBF16) return RunBackward<Bf16Backward>(op, a, scratch);
  RunBackward<FloatBackward>(op, a, scratch);
}

namespace {

// Pages (M,G,2,R,D) of T.
template <class T>
class Pages {
 public:
  explicit Pages(const Tensor& pages)
      : data_(pages.data<T>()), G(pages.dim(1)), R(pages.dim(3)), D(pages.dim(4)) {}

  // The keys (part 0) or values (part 1) of a head, from the first place of a page.
  T* Part(int32_t page, int64_t g, int64_t part) const {
    return data_ + ((page * G + g) * 2 + part) * R * D;
  }
  T* At(const int32_t* table, int64_t position, int64_t g, int64_t part) const {
    return Part(table[position / R], g, part) + position % R * D;
  }

 private:
  T* data_;

 public:
  const int64_t G, R, D;
};

const int32_t* TableOf(const Tensor& tables, int64_t n) {
  return tables.data<int32_t>() + n * tables.dim(1);
}

void Copy(const float* from, int64_t n, float* to) {
  std::copy_n(from, n, to);
}
void Copy(const float* from, int64_t n, BF16* to) {
  RoundToHalves(from, n, to);
}
void Copy(const BF16* from, int64_t n, float* to) {
  DecodeStored(Dtype::kBF16, reinterpret_cast<const std::byte*>(from), n, to);
}

template <class T>
void Write(const CacheWrite& op) {
  const Pages<T> pages(op.pages);
  ParallelRange(op.k.T, TaskRows(2 * op.k.C), [&](int64_t begin, int64_t end, int) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t position = op.positions.data<int32_t>()[n];
      for (int64_t g = 0; g < pages.G; ++g) {
        const int32_t* table = TableOf(op.tables, n);
        Copy(op.k.row<float>(0, n) + g * pages.D, pages.D, pages.At(table, position, g, 0));
        Copy(op.v.row<float>(0, n) + g * pages.D, pages.D, pages.At(table, position, g, 1));
      }
    }
  });
}

template <class T>
void Read(const CacheRead& op) {
  const Pages<T> pages(op.pages);
  const int32_t* table = op.table.data<int32_t>();
  ParallelRange(op.k.T, TaskRows(2 * op.k.C), [&](int64_t begin, int64_t end, int) {
    for (int64_t g = 0; g < pages.G; ++g) {
      for (int64_t s = begin; s < end; ++s) {
        Copy(pages.At(table, op.first + s, g, 0), pages.D, op.k.row<float>(0, s) + g * pages.D);
        Copy(pages.At(table, op.first + s, g, 1), pages.D, op.v.row<float>(0, s) + g * pages.D);
      }
    }
  });
}

// The most keys of one head in a task: few enough to occupy all threads if a sequence has few
// heads, and many enough that joining them costs little.
int64_t KeysOfTask(int64_t D) {
  return RoundUp(CeilDiv(32768, D), 64);
}

// The attention of one row, and its tasks' results, each over its own keys.
class CachedRow {
 public:
  CachedRow(const CacheAttention& op, int64_t n, int64_t D)
      : task_keys_(KeysOfTask(D)), end_(op.positions.data<int32_t>()[n] + 1) {
    first_ = op.window == 0 ? 0 : std::max<int64_t>(0, end_ - op.window);
  }
  int64_t tasks() const { return CeilDiv(end_, task_keys_) - first_ / task_keys_; }
  // Task i has the positions [Begin(i), End(i)).
  int64_t Begin(int64_t i) const { return std::max(first_, Border(i)); }
  int64_t End(int64_t i) const { return std::min(end_, Border(i + 1)); }

 private:
  int64_t Border(int64_t i) const { return (first_ / task_keys_ + i) * task_keys_; }

  int64_t task_keys_, first_, end_;
};

// out (D) = the sum over tasks i of exp(lse[i * stride]) parts[i * stride * D], divided by the sum
// of the exponentials.
void JoinTasks(int64_t tasks, const float* parts, const float* lse, int64_t stride, int64_t D,
               float* out) {
  float max = -kInfinity, sum = 0;
  for (int64_t i = 0; i < tasks; ++i) max = std::max(max, lse[i * stride]);
  if (max == -kInfinity) max = 0;
  std::fill_n(out, D, 0.0f);
  for (int64_t i = 0; i < tasks; ++i) {
    const float weight = std::exp(lse[i * stride] - max);
    sum += weight;
    for (int64_t d = 0; d < D; ++d) out[d] += weight * parts[i * stride * D + d];
  }
  for (int64_t d = 0; d < D && sum != 0; ++d) out[d] /= sum;
}

template <class T>
void Attend(const CacheAttention& op, Scratch& scratch) {
  const Pages<T> pages(op.pages);
  const int64_t N = op.q.T, G = pages.G, R = pages.R, D = pages.D, shared = op.H / G;
  const auto scale =
      static_cast<float>(op.scale != 0 ? op.scale : 1 / std::sqrt(static_cast<double>(D)));
  int64_t most = 0;
  for (int64_t n = 0; n < N; ++n) most = std::max(most, CachedRow(op, n, D).tasks());
  const int64_t stride = KeysOfTask(D);
  const auto cut = [&](std::byte* memory, float*& parts, float*& lse, float*& scores) {
    ScratchParts arrays(memory);
    parts = arrays.Take<float>(N * most * op.H * D);
    lse = arrays.Take<float>(N * most * op.H);
    scores = arrays.Take<float>(Threads() * shared * stride);
    return arrays.bytes();
  };
  float *parts = nullptr, *lse = nullptr, *scores = nullptr;
  cut(scratch.Get<std::byte>(cut(nullptr, parts, lse, scores)), parts, lse, scores);
  ParallelFor(N * most * G, [&](int64_t task, int thread) {
    const int64_t n = task / G / most, i = task / G % most, g = task % G, h = g * shared;
    const CachedRow row(op, n, D);
    if (i >= row.tasks()) return;
    const int64_t begin = row.Begin(i), keys = row.End(i) - begin;
    const int32_t* table = TableOf(op.tables, n);
    float* weights = scores + thread * shared * stride;
    float* out = row.tasks() == 1 ? op.out.row<float>(0, n) + h * D
                                  : parts + ((n * most + i) * op.H + h) * D;
    const auto for_pages = [&](int64_t part, auto&& f) {
      for (int64_t s = 0, count = 0; s < keys; s += count) {
        count = std::min(R - (begin + s) % R, keys - s);
        f(KeyRows{pages.At(table, begin + s, g, part), DtypeOf<T>(), D}, count, weights + s);
      }
    };
    for_pages(0, [&](const KeyRows& k, int64_t count, float* to) {
      ScoreRows(op.q.row<float>(0, n) + h * D, shared, D, k, count, scale, to, stride);
    });
    for (int64_t j = 0; j < shared; ++j) {
      float* of_head = weights + j * stride;
      if (op.cap > 0) CapRow(static_cast<float>(op.cap), keys, of_head);
      lse[(n * most + i) * op.H + h + j] = SoftmaxRow(of_head, keys, nullptr);
    }
    std::fill_n(out, shared * D, 0.0f);
    for_pages(1, [&](const KeyRows& v, int64_t count, const float* of_keys) {
      CombineRows(of_keys, stride, shared, D, v, count, out);
    });
  });
  for (int64_t n = 0; n < N; ++n) {
    const int64_t tasks = CachedRow(op, n, D).tasks();
    for (int64_t h = 0; tasks > 1 && h < op.H; ++h) {
      const int64_t place = n * most * op.H + h;
      JoinTasks(tasks, parts + place * D, lse + place, op.H, D, op.out.row<float>(0, n) + h * D);
    }
  }
}

}  // namespace

void Run(const CacheWrite& op, Scratch&) {
  op.pages.dtype() == Dtype::kBF16 ? Write<BF16>(op) : Write<float>(op);
}

void Run(const CacheRead& op, Scratch&) {
  op.pages.dtype() == Dtype::kBF16 ? Read<BF16>(op) : Read<float>(op);
}

void Run(const CacheAttention& op, Scratch& scratch) {
  op.pages.dtype() == Dtype::kBF16 ? Attend<BF16>(op, scratch) : Attend<float>(op, scratch);
}

}  // namespace folio::cpu
