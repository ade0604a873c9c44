#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "folio/backend/cpu/kernels.h"
#include "folio/base/thread_pool.h"
#include "folio/tensor/dtype.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "folio/backend/cpu/math-inl.h"
#include "folio/backend/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {

// to = a + b
void EmbeddingSum(const float* a, const float* b, int64_t n, float* to) {
  const hn::ScalableTag<float> d;
  Map(
      d, n, to, [](auto x, auto y) HWY_ATTR { return hn::Add(x, y); }, a, b);
}

// Adds columns [begin, end) of the rows of d_out, in order, to those of the rows of the tables that
// they came from.
void EmbeddingScatter(const EmbeddingBackward& op, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  const auto add = [](auto x, auto y) HWY_ATTR { return hn::Add(x, y); };
  const int64_t T = op.ids.dim(1), C = op.d_wte.dim(1), N = op.ids.count(), n = end - begin;
  const int32_t* ids = op.ids.data<int32_t>();
  const int32_t* at = op.positions.data<int32_t>();
  for (int64_t row = 0; row < N; ++row) {
    const float* from = op.d_out.data<float>() + row * C + begin;
    if (ids[row] != kElsewhere) {
      float* token = op.d_wte.data<float>() + ids[row] * C + begin;
      Map(d, n, token, add, token, from);
    }
    if (op.d_wpe) {
      float* position = op.d_wpe.data<float>() + (at != nullptr ? at[row] : row % T) * C + begin;
      Map(d, n, position, add, position, from);
    }
  }
}

// Mean and sum of squared distances from it, in two passes over the row.
void LayerNormMoments(const float* x, int64_t C, float* mean, float* squares) {
  const hn::ScalableTag<float> d;
  const auto add = [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); };
  *mean = SumLanes(d, Fold(d, C, hn::Zero(d), add, add, x)) / static_cast<float>(C);
  const auto center = hn::Set(d, *mean);
  const auto square = [&](auto acc, auto v) HWY_ATTR {
    const auto distance = hn::Sub(v, center);
    return hn::MulAdd(distance, distance, acc);
  };
  *squares = SumLanes(d, Fold(d, C, hn::Zero(d), square, add, x));
}

// out = (x - mean) * rstd * weight + bias, for one row; bias may be null.
template <class T>
void LayerNormScale(const float* x, const float* weight, const float* bias, float mean, float rstd,
                    int64_t C, T* out) {
  const hn::ScalableTag<float> d;
  const auto center = hn::Set(d, mean), factor = hn::Set(d, rstd);
  const auto norm = [&](auto v) HWY_ATTR { return hn::Mul(hn::Sub(v, center), factor); };
  if (bias == nullptr) {
    Map(
        d, C, out, [&](auto v, auto w) HWY_ATTR { return hn::Mul(norm(v), w); }, x, weight);
  } else {
    Map(
        d, C, out, [&](auto v, auto w, auto b) HWY_ATTR { return hn::MulAdd(norm(v), w, b); }, x,
        weight, bias);
  }
}

void LayerNormRows(const LayerNormForward& op, int64_t begin, int64_t end) {
  const int64_t C = op.x.dim(1);
  const float* weight = op.weight.data<float>();
  const float* bias = op.bias.data<float>();
  for (int64_t row = begin; row < end; ++row) {
    const float* x = op.x.data<float>() + row * C;
    float mean = 0, squares = 0;
    LayerNormMoments(x, C, &mean, &squares);
    const double variance = static_cast<double>(squares) / static_cast<double>(C);
    const float rstd = static_cast<float>(1 / std::sqrt(variance + op.eps));
    op.mean.data<float>()[row] = mean;
    op.rstd.data<float>()[row] = rstd;
    if (op.out.dtype() == Dtype::kBF16) {
      LayerNormScale(x, weight, bias, mean, rstd, C, op.out.data<BF16>() + row * C);
    } else {
      LayerNormScale(x, weight, bias, mean, rstd, C, op.out.data<float>() + row * C);
    }
  }
}

// LayerNormRowSums adds, for one row with n = (x - mean) * rstd and g = d_out * weight, d_out * n
// to d_weight and d_out to d_bias, and gives the sums of g and of g * n.
template <class T>
void LayerNormRowSums(const float* x, const T* d_out, const float* weight, float mean, float rstd,
                      int64_t C, float* d_weight, float* d_bias, float* sum_g, float* sum_gn) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto center = hn::Set(d, mean), factor = hn::Set(d, rstd);
  auto g0 = hn::Zero(d), g1 = hn::Zero(d), gn0 = hn::Zero(d), gn1 = hn::Zero(d);
  const auto full = [&](int64_t i, auto& sum, auto& sum_n) HWY_ATTR {
    const auto dy = LoadU(d, d_out + i);
    const auto n = hn::Mul(hn::Sub(hn::LoadU(d, x + i), center), factor);
    const auto g = hn::Mul(dy, hn::LoadU(d, weight + i));
    sum = hn::Add(sum, g);
    sum_n = hn::MulAdd(g, n, sum_n);
    hn::StoreU(hn::MulAdd(dy, n, hn::LoadU(d, d_weight + i)), d, d_weight + i);
    hn::StoreU(hn::Add(dy, hn::LoadU(d, d_bias + i)), d, d_bias + i);
  };
  int64_t i = 0;
  for (; i + 2 * lanes <= C; i += 2 * lanes) {
    full(i, g0, gn0);
    full(i + lanes, g1, gn1);
  }
  if (i + lanes <= C) full(i, g0, gn0), i += lanes;
  if (const int64_t rest = C - i; rest > 0) {
    const auto dy = LoadPart(d, d_out + i, rest);  // 0 beyond the row, and so is all made from it
    const auto n = hn::Mul(hn::Sub(LoadPart(d, x + i, rest), center), factor);
    const auto g = hn::Mul(dy, LoadPart(d, weight + i, rest));
    g1 = hn::Add(g1, g);
    gn1 = hn::MulAdd(g, n, gn1);
    StorePart(hn::MulAdd(dy, n, LoadPart(d, d_weight + i, rest)), d, d_weight + i, rest);
    StorePart(hn::Add(dy, LoadPart(d, d_bias + i, rest)), d, d_bias + i, rest);
  }
  *sum_g = SumLanes(d, hn::Add(g0, g1));
  *sum_gn = SumLanes(d, hn::Add(gn0, gn1));
}

// LayerNormGradientRows for a d_out of T.
template <class T>
void LayerNormGradientOf(const LayerNormBackward& op, int64_t begin, int64_t end, float* d_weight,
                         float* d_bias) {
  const hn::ScalableTag<float> d;
  const int64_t C = op.x.dim(1);
  const float* weight = op.weight.data<float>();
  std::fill_n(d_weight, C, 0.0f);
  std::fill_n(d_bias, C, 0.0f);
  for (int64_t row = begin; row < end; ++row) {
    const float* x = op.x.data<float>() + row * C;
    const T* d_out = op.d_out.data<T>() + row * C;
    float* d_x = op.d_x.data<float>() + row * C;
    const float mean = op.mean.data<float>()[row], rstd = op.rstd.data<float>()[row];
    float sum_g = 0, sum_gn = 0;
    LayerNormRowSums(x, d_out, weight, mean, rstd, C, d_weight, d_bias, &sum_g, &sum_gn);
    const auto center = hn::Set(d, mean), factor = hn::Set(d, rstd);
    const auto mean_g = hn::Set(d, sum_g / static_cast<float>(C));
    const auto mean_gn = hn::Set(d, sum_gn / static_cast<float>(C));
    const auto gradient = [&](auto v, auto dy, auto w) HWY_ATTR {
      const auto n = hn::Mul(hn::Sub(v, center), factor);
      // dy w is rounded as in the sums, so that one element alone has gradient 0.
      const auto g = hn::Sub(hn::Mul(dy, w), mean_g);
      return hn::Mul(hn::NegMulAdd(n, mean_gn, g), factor);
    };
    if (op.accumulate_d_x) {
      Map(
          d, C, d_x,
          [&](auto v, auto dy, auto w, auto old)
              HWY_ATTR { return hn::Add(old, gradient(v, dy, w)); },
          x, d_out, weight, d_x);
    } else {
      Map(d, C, d_x, gradient, x, d_out, weight);
    }
  }
}

// d_x of rows [begin, end), and their sums for d_weight and d_bias, (C) each, overwritten.
void LayerNormGradientRows(const LayerNormBackward& op, int64_t begin, int64_t end, float* d_weight,
                           float* d_bias) {
  if (op.d_out.dtype() == Dtype::kBF16) {
    LayerNormGradientOf<BF16>(op, begin, end, d_weight, d_bias);
  } else {
    LayerNormGradientOf<float>(op, begin, end, d_weight, d_bias);
  }
}

// sums[i] += parts[0][i] + parts[1][i] + ... for i in [0, n), parts lying `stride` apart.
void LayerNormAddParts(const float* parts, int64_t count, int64_t stride, int64_t n, float* sums) {
  const hn::ScalableTag<float> d;
  for (int64_t part = 0; part < count; ++part) {
    Map(
        d, n, sums, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); }, sums,
        parts + part * stride);
  }
}

// The largest of n logits and the sum of exp(logit - largest).
void CrossEntropyRow(const float* logits, int64_t n, float* largest, float* sum) {
  const hn::ScalableTag<float> d;
  const auto join_max = [](auto a, auto b) HWY_ATTR { return hn::Max(a, b); };
  const auto max =
      Fold(d, n, hn::Set(d, -std::numeric_limits<float>::infinity()), join_max, join_max, logits);
  *largest = MaxLane(d, max);
  const auto shift = hn::Set(d, *largest);
  const auto total = Fold(
      d, n, hn::Zero(d),
      [&](auto acc, auto v) HWY_ATTR { return hn::Add(acc, Exp(d, hn::Sub(v, shift))); },
      [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); }, logits);
  *sum = SumLanes(d, total);
}

// d_logits = (exp(logits - lse) - onehot(target)) * scale
template <class T>
void CrossEntropyGradient(const float* logits, int64_t n, int32_t target, float lse, float scale,
                          T* d_logits) {
  const hn::ScalableTag<float> d;
  const auto shift = hn::Set(d, lse);
  const auto factor = hn::Set(d, scale);
  const auto softmax = [&](auto v) HWY_ATTR { return hn::Mul(Exp(d, hn::Sub(v, shift)), factor); };
  if (target == kElsewhere) return Map(d, n, d_logits, softmax, logits);
  // `of_target` is made before the target's logit may be overwritten, and in float32: it is rounded
  // once.
  const float of_target = hn::GetLane(softmax(hn::Set(d, logits[target]))) - scale;
  Map(d, n, d_logits, softmax, logits);
  Map(
      d, 1, d_logits + target, [](auto v) HWY_ATTR { return v; }, &of_target);
}

template <class T>
void CrossEntropyGradientOf(const CrossEntropyBackward& op, int64_t row) {
  const int64_t V = op.logits.dim(1);
  const int32_t target = op.targets.data<int32_t>()[row];
  T* d_logits = op.d_logits.data<T>() + row * V;
  if (target == CrossEntropyForward::kIgnore) {
    std::fill_n(d_logits, V, T{});
    return;
  }
  CrossEntropyGradient(op.logits.data<float>() + row * V, V, target, op.lse.data<float>()[row],
                       static_cast<float>(op.scale), d_logits);
}

void CrossEntropyGradientRow(const CrossEntropyBackward& op, int64_t row) {
  if (op.d_logits.dtype() == Dtype::kBF16) {
    CrossEntropyGradientOf<BF16>(op, row);
  } else {
    CrossEntropyGradientOf<float>(op, row);
  }
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(EmbeddingSum);
HWY_EXPORT(EmbeddingScatter);

namespace {

void CheckTokens(const Tensor& ids, int64_t V) {
  const int32_t* id = ids.data<int32_t>();
  for (int64_t i = 0; i < ids.count(); ++i) {
    FOLIO_CHECK((id[i] >= 0 && id[i] < V) || id[i] == kElsewhere, "token outside the vocabulary");
  }
}

void CheckPositions(const Tensor& positions, int64_t P) {
  const int32_t* at = positions.data<int32_t>();
  for (int64_t i = 0; i < positions.count(); ++i) {
    FOLIO_CHECK(at[i] >= 0 && at[i] < P, "position outside the context");
  }
}

// CheckRows checks tokens and positions before anything is read by them.
template <class Op>
void CheckRows(const Op& op, const Tensor& wte, const Tensor& wpe) {
  CheckTokens(op.ids, wte.dim(0));
  if (wpe && op.positions) CheckPositions(op.positions, wpe.dim(0));
}

}  // namespace

void Run(const EmbeddingForward& op, Scratch&) {
  CheckRows(op, op.wte, op.wpe);
  const int64_t T = op.ids.dim(1), C = op.wte.dim(1);
  const int32_t* ids = op.ids.data<int32_t>();
  const int32_t* at = op.positions.data<int32_t>();
  const float* wpe = op.wpe.data<float>();
  float* out = op.out.data<float>();
  ParallelRange(op.ids.count(), TaskRows(C), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      float* to = out + row * C;
      if (ids[row] == kElsewhere) {
        std::fill_n(to, C, 0.0f);
      } else {
        DecodeFloats(op.wte.raw() + DtypeBytes(op.wte.dtype(), ids[row] * C), op.wte.dtype(),
                     std::span(to, static_cast<size_t>(C)));
      }
      if (wpe == nullptr) continue;
      const float* position = wpe + (at != nullptr ? at[row] : row % T) * C;
      HWY_DYNAMIC_DISPATCH(EmbeddingSum)(to, position, C, to);
    }
  });
}

// Tokens repeat, so threads share columns out rather than rows.
void Run(const EmbeddingBackward& op, Scratch&) {
  CheckRows(op, op.d_wte, op.d_wpe);
  constexpr int64_t kColumns = 64;
  ParallelRange(op.d_wte.dim(1), kColumns, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(EmbeddingScatter)(op, begin, end);
  });
}

HWY_EXPORT(LayerNormRows);
HWY_EXPORT(LayerNormGradientRows);
HWY_EXPORT(LayerNormAddParts);

void Run(const LayerNormForward& op, Scratch&) {
  ParallelRange(op.x.dim(0), TaskRows(op.x.dim(1)), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(LayerNormRows)(op, begin, end);
  });
}

// Each chunk of rows sums its own part of d_weight and d_bias; the parts are added in order. At
// most kChunks of them bound the memory for the parts, at least 16 rows the time for adding them.
void Run(const LayerNormBackward& op, Scratch& scratch) {
  constexpr int64_t kChunks = 256;
  const int64_t N = op.x.dim(0), C = op.x.dim(1);
  const int64_t rows = std::max({TaskRows(C), (N + kChunks - 1) / kChunks, int64_t{16}});
  const int64_t chunks = (N + rows - 1) / rows;
  float* parts = scratch.Get<float>(chunks * 2 * C);
  ParallelRange(N, rows, [&](int64_t begin, int64_t end, int) {
    float* part = parts + begin / rows * 2 * C;
    HWY_DYNAMIC_DISPATCH(LayerNormGradientRows)(op, begin, end, part, part + C);
  });
  if (!op.d_weight && !op.d_bias) return;
  const int64_t columns = std::max<int64_t>(64, TaskRows(chunks));
  ParallelRange(C, columns, [&](int64_t begin, int64_t end, int) {
    const auto add = HWY_DYNAMIC_DISPATCH(LayerNormAddParts);
    const auto add_to = [&](const Tensor& sums, int64_t first) {
      if (sums) add(parts + first + begin, chunks, 2 * C, end - begin, sums.data<float>() + begin);
    };
    add_to(op.d_weight, 0);
    add_to(op.d_bias, C);
  });
}

HWY_EXPORT(CrossEntropyRow);
HWY_EXPORT(CrossEntropyGradientRow);

namespace {

void CheckTarget(int32_t target, int64_t V) {
  FOLIO_CHECK(
      (target >= 0 && target < V) || target == CrossEntropyForward::kIgnore || target == kElsewhere,
      "target outside the vocabulary");
}

}  // namespace

void Run(const CrossEntropyForward& op, Scratch&) {
  const int64_t N = op.logits.dim(0), V = op.logits.dim(1);
  const int32_t* targets = op.targets.data<int32_t>();
  ParallelRange(N, TaskRows(V), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const float* logits = op.logits.data<float>() + row * V;
      const int32_t target = targets[row];
      CheckTarget(target, V);
      float largest = 0, sum = 0;
      HWY_DYNAMIC_DISPATCH(CrossEntropyRow)(logits, V, &largest, &sum);
      const float log_sum = std::log(sum);
      op.lse.data<float>()[row] = largest + log_sum;
      op.losses.data<float>()[row] = target < 0 ? 0.0f : log_sum + (largest - logits[target]);
    }
  });
}

void Run(const CrossEntropyBackward& op, Scratch&) {
  const int64_t N = op.logits.dim(0), V = op.logits.dim(1);
  ParallelRange(N, TaskRows(V), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      CheckTarget(op.targets.data<int32_t>()[row], V);
      HWY_DYNAMIC_DISPATCH(CrossEntropyGradientRow)(op, row);
    }
  });
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
