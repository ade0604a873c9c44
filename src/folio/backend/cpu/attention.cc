#include <algorithm>
#include <cmath>
#include <limits>

#include "folio/backend/cpu/attention_products.h"
#include "folio/backend/cpu/attention_rows.h"
#include "folio/backend/cpu/kernels.h"
#include "folio/base/thread_pool.h"

// T. Dao et al., "FlashAttention", arXiv:2205.14135: tiles of scores, of which a thread has one at
// a time, and none that the causal mask removes.

namespace folio::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

int64_t RoundUp(int64_t n, int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

// BytesOf is what a Head takes of the scratch memory of its thread.
template <class Head, class Op>
int64_t BytesOf(const Op& op, const AttentionSizes& sizes) {
  ScratchParts parts(nullptr);
  Head(op, sizes, parts);
  return parts.bytes();
}

// Scales a tile of q . k, or of d_out . v without the mask, where that is not left to the softmax.
void ScaleTile(const AttentionSizes& a, int64_t b, const TilePlace& at, bool with_mask, float* x) {
  for (int64_t row = 0; row < at.keys; ++row) {
    for (int64_t c = at.FirstQuery(row); c < at.queries; ++c) {
      float& score = x[row * kScoreQueries + c];
      score *= a.scale;
      if (with_mask) score = a.Masked(score, b, at.t + c, at.s + row);
    }
  }
}

// ---- Forward -----------------------------------------------------------------------------------

// Blocks of queries of one head after the other, with one thread's memory.
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
    products_.SetQueries(t, queries);
    state_.Reset();
    for (int64_t s = 0; s < keys; s += kScoreKeys) {
      const ScoreTile tile = a_.Tile(op_.dropout, b, h, s, t);
      const TilePlace at = {s, tile.keys, t, queries, tile.seen};
      products_.Scores(at, scores_);
      if (a_.masked()) ScaleTile(a_, b, at, /*with_mask=*/true, scores_);
      products_.Softmax(tile, scores_, state_);
      if (s > 0 && state_.rescaled) {
        ScaleColumns(state_.rescale, a_.D, kScoreQueries, context_);
      }
      products_.Context(at, scores_, s > 0, context_);
    }
    if (keys == 0) std::fill_n(context_, a_.D * kScoreQueries, 0.0f);
    float* lse = op_.lse.data<float>() + a_.Row(b, h, t);
    Finish(queries, lse);
    WriteTransposed(context_, queries, op_.out.row<Number>(b, t) + h * a_.D);
    if (op_.probs) WriteProbs(b, h, t, keys, lse);
  }

  // Divides by the sums of weights; where there are none, gives zeros.
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
    for (int64_t s = 0; s < keys; s += kScoreKeys) {
      const ScoreTile tile = a_.Tile(op_.dropout, b, h, s, t);
      const TilePlace at = {s, tile.keys, t, queries, tile.seen};
      products_.Scores(at, scores_);
      if (a_.masked()) ScaleTile(a_, b, at, /*with_mask=*/true, scores_);
      WeightsTile(tile, shift, scores_);
      Transpose(scores_, kScoreQueries, tile.keys, queries, probs + s, a_.S);
    }
    for (int64_t c = 0; c < queries; ++c) {
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

// Fewer queries than kFewQueries have a row of scores each, and no lanes left empty.
constexpr int64_t kFewQueries = 16;

void RunFewQueries(const AttentionForward& op, const AttentionSizes& a, Scratch& scratch) {
  const int64_t stride = RoundUp(a.S, 16), shared = a.H / a.G;
  float* memory = scratch.Get<float>(shared * stride * Threads());
  ParallelFor(a.B * a.T * a.G, [&](int64_t task, int thread) {
    const int64_t b = task / a.G / a.T, t = task / a.G % a.T, g = task % a.G;
    const int64_t keys = a.Keys(t), h = a.FirstHead(g);
    const auto rows = [&](const SequenceView& x) {
      const HeadRows head = HeadOf(x, b, 0, g, a.D);
      return KeyRows<float>{head.data, head.stride};
    };
    float* scores = memory + thread * shared * stride;
    ScoreRows(HeadOf(op.q, b, t, h, a.D).data, shared, a.D, rows(op.k), keys, a.scale, scores,
              stride);
    for (int64_t i = 0; i < shared; ++i) {
      float* row = scores + i * stride;
      const int64_t place = a.Row(b, h + i, t);
      for (int64_t s = 0; a.masked() && s < keys; ++s) row[s] = a.Masked(row[s], b, t, s);
      op.lse.data<float>()[place] = SoftmaxRow(row, keys, keys, a.KeyMask(b));
      if (op.probs) {
        float* probs = op.probs.data<float>() + place * a.S;
        std::copy_n(row, keys, probs);
        std::fill(probs + keys, probs + a.S, 0.0f);
      }
      if (op.dropout.active()) {
        DropoutRow(op.dropout, op.dropout.Row(b, h + i, t, a.H, a.T), a.S, keys, row);
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
      for (int64_t block = a_.FirstBlock(s); block < a_.Blocks(); ++block) {
        RunTile(b, h, s, block * kScoreQueries);
      }
    }
    for (int64_t t = 0; t < a_.T; t += kScoreQueries) {
      WriteTransposed(sums_.QueryBlock(t), a_.Queries(t), op_.d_q.row<Number>(b, t) + h * a_.D);
    }
  }

  // lse and delta of all queries, as GradientTile wants them.
  void SetRows(int64_t b, int64_t h) {
    const int64_t queries = a_.Blocks() * kScoreQueries;
    std::fill_n(lse_, queries, kInfinity), std::fill_n(delta_, queries, 0.0f);
    if (a_.T == 0) return;
    const float* lse = op_.lse.data<float>() + a_.Row(b, h, 0);
    for (int64_t t = 0; t < a_.T; ++t) {
      if (lse[t] != -kInfinity) lse_[t] = lse[t];
    }
    DotRows(op_.out.row<Number>(b, 0) + h * a_.D, op_.out.row_stride,
            op_.d_out.row<Number>(b, 0) + h * a_.D, op_.d_out.row_stride, a_.T, a_.D, delta_);
    // What the gradients of scores are multiplied with is in both of their terms already.
    for (int64_t t = 0; a_.masked() && t < a_.T; ++t) delta_[t] *= a_.scale;
  }

  void RunTile(int64_t b, int64_t h, int64_t s, int64_t t) {
    const ScoreTile tile = a_.Tile(op_.dropout, b, h, s, t);
    if (tile.keys <= 0) return;
    const TilePlace at = {s, tile.keys, t, tile.queries, tile.seen};
    products_.Scores(at, scores_);
    products_.Grads(at, grads_);
    if (a_.masked()) {
      ScaleTile(a_, b, at, /*with_mask=*/true, scores_);
      ScaleTile(a_, b, at, /*with_mask=*/false, grads_);
    }
    products_.Gradient(tile, lse_ + t, delta_ + t, scores_, grads_);
    products_.Collect(at, scores_, grads_, sums_);
  }

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
  float *scores_, *grads_;  // (kScoreKeys, kScoreQueries)
  float* rounding_;         // (kScoreQueries, D)
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

}  // namespace folio::cpu
