#include <algorithm>
#include <cmath>

#include "folio/backend/cpu/kernels.h"
#include "folio/base/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/layernorm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "folio/backend/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {

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

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

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

}  // namespace folio::cpu
#endif  // HWY_ONCE
