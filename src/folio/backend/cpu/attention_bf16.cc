#include <algorithm>

#include "folio/backend/cpu/attention_products.h"

namespace folio::cpu {
namespace {

// One head's rows from the first on; their transpose if `transposed`.
MatrixView<BF16> Bf16Rows(const SequenceView& x, int64_t b, int64_t t, int64_t h, int64_t D,
                          bool transposed) {
  return {x.row<BF16>(b, t) + h * D, x.row_stride, transposed};
}

// TileStride is the number of elements from one row of tiles of an operand to the next.
int64_t TileStride(int64_t depth) {
  return DepthTiles(depth) * kTileElements;
}

// tile (keys, queries) = left (S, D), from the tile's first key on, right (D, queries).
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

}  // namespace

Bf16Forward::Bf16Forward(const AttentionForward& op, const AttentionSizes& sizes,
                         ScratchParts& parts)
    : op_(op),
      sizes_(sizes),
      keys_(parts.Take<BF16>(PackedElements(sizes.S, sizes.D))),
      values_(parts.Take<BF16>(PackedElements(sizes.D, sizes.S))),
      queries_(parts.Take<BF16>(PackedElements(kScoreQueries, sizes.D))),
      weights_(parts.Take<BF16>(kScoreElements)) {}

int64_t Bf16Forward::TasksOfHead(const AttentionSizes& sizes) {
  constexpr int64_t kHeads = 16, kBlocks = 4;
  const int64_t wanted = (kHeads + sizes.B * sizes.H - 1) / std::max<int64_t>(1, sizes.B * sizes.H);
  return std::clamp<int64_t>(sizes.Blocks() / kBlocks, 1, wanted);
}

void Bf16Forward::SetHead(int64_t b, int64_t h) {
  b_ = b, h_ = h;
  const int64_t g = sizes_.KeyHead(h), S = sizes_.S, D = sizes_.D;
  if (S == 0) return;
  PackLeft(Bf16Rows(op_.k, b, 0, g, D, false), S, D, keys_);
  PackLeft(Bf16Rows(op_.v, b, 0, g, D, true), D, S, values_);
}

void Bf16Forward::SetQueries(int64_t t, int64_t queries) {
  PackRight(Bf16Rows(op_.q, b_, t, h_, sizes_.D, true), sizes_.D, queries, queries_);
}

void Bf16Forward::Scores(const TilePlace& at, float* scores) {
  MultiplyChannels(multiplier_, at, sizes_.D, keys_, queries_, scores);
}

void Bf16Forward::Softmax(const ScoreTile& tile, float* scores, SoftmaxState& state) {
  SoftmaxTile(tile, scores, state, weights_);
}

void Bf16Forward::Context(const TilePlace& at, const float*, bool accumulate, float* context) {
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

Bf16Backward::Bf16Backward(const AttentionBackward& op, const AttentionSizes& sizes,
                           ScratchParts& parts)
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

void Bf16Backward::SetKeys(int64_t b, int64_t g) {
  b_ = b;
  const int64_t S = sizes_.S, D = sizes_.D;
  if (S == 0) return;
  PackLeft(Bf16Rows(op_.k, b, 0, g, D, false), S, D, keys_);
  PackLeft(Bf16Rows(op_.k, b, 0, g, D, true), D, S, keys_turned_);
  PackLeft(Bf16Rows(op_.v, b, 0, g, D, false), S, D, values_);
}

void Bf16Backward::SetQueries(int64_t h) {
  const int64_t T = sizes_.T, D = sizes_.D;
  if (T == 0) return;
  PackFolded(op_.q.row<BF16>(b_, 0) + h * D, op_.q.row_stride, T, D, queries_);
  PackFolded(op_.d_out.row<BF16>(b_, 0) + h * D, op_.d_out.row_stride, T, D, d_outs_);
  PackRight(Bf16Rows(op_.q, b_, 0, h, D, true), D, T, queries_turned_);
  PackRight(Bf16Rows(op_.d_out, b_, 0, h, D, true), D, T, d_outs_turned_);
}

void Bf16Backward::Scores(const TilePlace& at, float* scores) {
  MultiplyChannels(multiplier_, at, sizes_.D, keys_,
                   queries_turned_ + PackedElements(at.t, sizes_.D), scores);
}

void Bf16Backward::Grads(const TilePlace& at, float* grads) {
  MultiplyChannels(multiplier_, at, sizes_.D, values_,
                   d_outs_turned_ + PackedElements(at.t, sizes_.D), grads);
}

void Bf16Backward::Gradient(const ScoreTile& tile, const float* lse, const float* delta,
                            float* scores, float* grads) {
  GradientTile(tile, lse, delta, scores, grads, packed_);
}

void Bf16Backward::Collect(const TilePlace& at, const float*, const float*,
                           const GradientSums& sums) {
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

}  // namespace folio::cpu
