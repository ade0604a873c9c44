#include <algorithm>

#include "folio/backend/cpu/attention_products.h"
#include "folio/backend/cpu/small_product.h"

namespace folio::cpu {
namespace {

// Pieces of a tile that the causal mask crosses, so narrow that not half of it is computed in vain.
constexpr int64_t kPiece = 32;

// Calls f(column, columns, keys) for pieces of the tile that hold all that is seen.
template <class F>
void ForColumns(const TilePlace& at, F&& f) {
  const int64_t step = at.KeysBefore(1) == at.keys ? at.queries : kPiece;
  for (int64_t c = 0; c < at.queries; c += step) {
    const int64_t columns = std::min(step, at.queries - c);
    f(c, columns, at.KeysBefore(c + columns));
  }
}

// tile (keys, queries) = x (keys, D) y (D, queries).
void MultiplyQueries(const TilePlace& at, const HeadRows& x, const float* y, int64_t D,
                     float* tile) {
  ForColumns(at, [&](int64_t column, int64_t columns, int64_t keys) {
    if (keys == 0) return;
    SmallProduct({.M = keys,
                  .N = columns,
                  .K = D,
                  .a = x.data,
                  .lda = x.stride,
                  .b = y + column,
                  .ldb = kScoreQueries,
                  .c = tile + column,
                  .ldc = kScoreQueries});
  });
}

// to (D, queries) = beta * to + x^T (D, keys) tile (keys, queries).
void SumOverKeys(const TilePlace& at, const HeadRows& x, const float* tile, int64_t D, float beta,
                 float* to) {
  ForColumns(at, [&](int64_t column, int64_t columns, int64_t keys) {
    if (keys == 0) {
      for (int64_t d = 0; d < D && beta == 0; ++d) {
        std::fill_n(to + d * kScoreQueries + column, columns, 0.0f);
      }
      return;
    }
    SmallProduct({.M = D,
                  .N = columns,
                  .K = keys,
                  .a = x.data,
                  .lda = x.stride,
                  .transpose_a = true,
                  .b = tile + column,
                  .ldb = kScoreQueries,
                  .c = to + column,
                  .ldc = kScoreQueries,
                  .beta = beta});
  });
}

// to (keys, D) += tile (keys, queries) x (queries, D).
void AddOverQueries(const TilePlace& at, const float* tile, const HeadRows& x, int64_t D, float* to,
                    int64_t width) {
  const int64_t step = at.FirstQuery(at.keys - 1) == 0 ? at.keys : kPiece;
  for (int64_t row = 0; row < at.keys; row += step) {
    const int64_t first = at.FirstQuery(row);
    if (first == at.queries) return;
    SmallProduct({.M = std::min(step, at.keys - row),
                  .N = D,
                  .K = at.queries - first,
                  .a = tile + row * kScoreQueries + first,
                  .lda = kScoreQueries,
                  .b = x.data + first * x.stride,
                  .ldb = x.stride,
                  .c = to + row * width,
                  .ldc = width,
                  .beta = 1});
  }
}

}  // namespace

FloatForward::FloatForward(const AttentionForward& op, const AttentionSizes& sizes,
                           ScratchParts& parts)
    : op_(op), sizes_(sizes), queries_(parts.Take<float>(sizes.D * kScoreQueries)) {}

void FloatForward::SetQueries(int64_t t, int64_t queries) {
  const HeadRows q = HeadOf(op_.q, b_, t, h_, sizes_.D);
  Transpose(q.data, q.stride, queries, sizes_.D, queries_, kScoreQueries);
}

void FloatForward::Scores(const TilePlace& at, float* scores) {
  MultiplyQueries(at, HeadOf(op_.k, b_, at.s, sizes_.KeyHead(h_), sizes_.D), queries_, sizes_.D,
                  scores);
}

void FloatForward::Softmax(const ScoreTile& tile, float* scores, SoftmaxState& state) {
  SoftmaxTile(tile, scores, state);
}

void FloatForward::Context(const TilePlace& at, const float* weights, bool accumulate,
                           float* context) {
  SumOverKeys(at, HeadOf(op_.v, b_, at.s, sizes_.KeyHead(h_), sizes_.D), weights, sizes_.D,
              accumulate ? 1 : 0, context);
}

FloatBackward::FloatBackward(const AttentionBackward& op, const AttentionSizes& sizes,
                             ScratchParts& parts)
    : op_(op), sizes_(sizes) {
  const int64_t count = sizes.Blocks() * sizes.D * kScoreQueries;
  queries_ = parts.Take<float>(count), d_outs_ = parts.Take<float>(count);
}

void FloatBackward::SetQueries(int64_t h) {
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

void FloatBackward::Scores(const TilePlace& at, float* scores) {
  MultiplyQueries(at, HeadOf(op_.k, b_, at.s, g_, sizes_.D), queries_ + at.t * sizes_.D, sizes_.D,
                  scores);
}

void FloatBackward::Grads(const TilePlace& at, float* grads) {
  MultiplyQueries(at, HeadOf(op_.v, b_, at.s, g_, sizes_.D), d_outs_ + at.t * sizes_.D, sizes_.D,
                  grads);
}

void FloatBackward::Gradient(const ScoreTile& tile, const float* lse, const float* delta,
                             float* scores, float* grads) {
  GradientTile(tile, lse, delta, scores, grads);
}

void FloatBackward::Collect(const TilePlace& at, const float* scores, const float* grads,
                            const GradientSums& sums) {
  const int64_t D = sizes_.D, first = at.s * sums.width;
  AddOverQueries(at, scores, HeadOf(op_.d_out, b_, at.t, h_, D), D, sums.d_v + first, sums.width);
  AddOverQueries(at, grads, HeadOf(op_.q, b_, at.t, h_, D), D, sums.d_k + first, sums.width);
  SumOverKeys(at, HeadOf(op_.k, b_, at.s, g_, D), grads, D, 1, sums.QueryBlock(at.t));
}

}  // namespace folio::cpu
