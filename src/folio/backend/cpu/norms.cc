#include <algorithm>
#include <cmath>

#include "folio/backend/cpu/kernels.h"
#include "folio/base/thread_pool.h"
#include "folio/tensor/dtype.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/norms.cc"
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

// For one row with n = (x - mean) * rstd and g = d_out * weight, adds d_out * n to d_weight and
// d_out to d_bias, and returns the sums of g and of g * n.
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
    const auto dy = LoadPart(d, d_out + i, rest);  // 0 beyond the row, and so is everything
                                                   // computed from it
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

void RoundRow(const float* x, int64_t C, BF16* to) {
  Map(
      hn::ScalableTag<float>(), C, to, [](auto v) HWY_ATTR { return v; }, x);
}

// LayerNormGradientRows for a d_out of type T.
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
      // dy w is rounded as in the sums, so that a single element has gradient 0.
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
    if (op.d_x_low) RoundRow(d_x, C, op.d_x_low.data<BF16>() + row * C);
  }
}

// d_x for rows [begin, end), and their sums for d_weight and d_bias, (C) each, overwritten.
void LayerNormGradientRows(const LayerNormBackward& op, int64_t begin, int64_t end, float* d_weight,
                           float* d_bias) {
  WithNumber(op.d_out.dtype(),
             [&]<class T>(T) { LayerNormGradientOf<T>(op, begin, end, d_weight, d_bias); });
}

template <class T>
double MeanSquare(const T* x, int64_t C) {
  return static_cast<double>(Dot(hn::ScalableTag<float>(), x, x, C)) * (1 / static_cast<double>(C));
}

// RMSNorm of one row with that mean of squares, times `factors`; returns rstd. `out` may be x.
template <class In, class Out>
float RmsRow(const In* x, double mean, const float* factors, double eps, int64_t C, Out* out) {
  const hn::ScalableTag<float> d;
  const float rstd = static_cast<float>(1 / std::sqrt(mean + eps));
  const auto r = hn::Set(d, rstd);
  Map(
      d, C, out, [&](auto v, auto f) HWY_ATTR { return hn::Mul(hn::Mul(v, r), f); }, x, factors);
  return rstd;
}

// The sum over one row of d_out * factors * x * rstd.
template <class X, class DOut>
float RmsRowProducts(const X* x, const DOut* d_out, const float* factors, float rstd, int64_t C) {
  const hn::ScalableTag<float> d;
  const auto r = hn::Set(d, rstd);
  const auto sum = Fold(
      d, C, hn::Zero(d),
      [&](auto acc, auto v, auto dy, auto f)
          HWY_ATTR { return hn::MulAdd(hn::Mul(dy, f), hn::Mul(v, r), acc); },
      [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); }, x, d_out, factors);
  return SumLanes(d, sum);
}

// The gradient of one row, where `mean` is the mean of the products: d_x, which may be d_out, and
// d_weight += d_out * x * rstd, unless that is null.
template <class X, class DOut, class DX>
void RmsRowGradient(const X* x, const DOut* d_out, const float* factors, float rstd, float mean,
                    int64_t C, bool add, DX* d_x, float* d_weight) {
  const hn::ScalableTag<float> d;
  const auto r = hn::Set(d, rstd), mean_gn = hn::Set(d, mean);
  if (d_weight != nullptr) {
    Map(
        d, C, d_weight,
        [&](auto v, auto dy, auto old) HWY_ATTR { return hn::MulAdd(dy, hn::Mul(v, r), old); }, x,
        d_out, static_cast<const float*>(d_weight));
  }
  const auto gradient = [&](auto v, auto dy, auto f) HWY_ATTR {
    return hn::Mul(hn::NegMulAdd(hn::Mul(v, r), mean_gn, hn::Mul(dy, f)), r);
  };
  if (add) {
    Map(
        d, C, d_x,
        [&](auto v, auto dy, auto f, auto old)
            HWY_ATTR { return hn::Add(old, gradient(v, dy, f)); },
        x, d_out, factors, static_cast<const DX*>(d_x));
  } else {
    Map(d, C, d_x, gradient, x, d_out, factors);
  }
}

template <class T>
void RmsNormRowsOf(const RmsNormForward& op, const float* factors, int64_t begin, int64_t end) {
  const int64_t C = op.x.dim(1);
  for (int64_t n = begin; n < end; ++n) {
    const float* x = op.x.data<float>() + n * C;
    op.rstd.data<float>()[n] =
        RmsRow(x, MeanSquare(x, C), factors, op.eps, C, op.out.data<T>() + n * C);
  }
}

void RmsNormRows(const RmsNormForward& op, const float* factors, int64_t begin, int64_t end) {
  WithNumber(op.out.dtype(), [&]<class T>(T) { RmsNormRowsOf<T>(op, factors, begin, end); });
}

template <class T>
void RmsNormGradientOf(const RmsNormBackward& op, const float* factors, int64_t begin, int64_t end,
                       float* d_weight) {
  const int64_t C = op.x.dim(1);
  for (int64_t n = begin; n < end; ++n) {
    const float* x = op.x.data<float>() + n * C;
    const T* d_out = op.d_out.data<T>() + n * C;
    const float rstd = op.rstd.data<float>()[n];
    const float mean = RmsRowProducts(x, d_out, factors, rstd, C) / static_cast<float>(C);
    float* d_x = op.d_x.data<float>() + n * C;
    RmsRowGradient(x, d_out, factors, rstd, mean, C, op.accumulate_d_x, d_x, d_weight);
    if (op.d_x_low) RoundRow(d_x, C, op.d_x_low.data<BF16>() + n * C);
  }
}

// d_x for rows [begin, end), and their sum for d_weight (C), which is added to unless it is null.
void RmsNormGradientRows(const RmsNormBackward& op, const float* factors, int64_t begin,
                         int64_t end, float* d_weight) {
  WithNumber(op.d_out.dtype(),
             [&]<class T>(T) { RmsNormGradientOf<T>(op, factors, begin, end, d_weight); });
}

template <class T>
void HeadNormRowsOf(const HeadNormForward& op, const float* factors, int64_t begin, int64_t end) {
  const int64_t C = op.x.C, groups = C / op.group;
  for (int64_t n = begin; n < end; ++n) {
    T* x = op.x.row<T>(n / op.x.T, n % op.x.T);
    if (op.raw) std::copy_n(x, C, op.raw.data<T>() + n * C);
    for (int64_t g = 0; g < groups; ++g) {
      T* part = x + g * op.group;
      const double mean =
          op.sums ? static_cast<double>(op.sums.data<float>()[n]) / static_cast<double>(op.whole)
                  : MeanSquare(part, op.group);
      const float rstd = RmsRow(static_cast<const T*>(part), mean, factors, op.eps, op.group, part);
      if (op.rstd) op.rstd.data<float>()[n * groups + g] = rstd;
    }
  }
}

void HeadNormRows(const HeadNormForward& op, const float* factors, int64_t begin, int64_t end) {
  WithNumber(op.x.dtype, [&]<class T>(T) { HeadNormRowsOf<T>(op, factors, begin, end); });
}

template <class T>
void HeadNormGradientOf(const HeadNormBackward& op, const float* factors, int64_t begin,
                        int64_t end, float* d_weight) {
  const int64_t C = op.d_x.C, groups = C / op.group;
  for (int64_t n = begin; n < end; ++n) {
    const T* raw = op.raw.data<T>() + n * C;
    T* d_x = op.d_x.row<T>(n / op.d_x.T, n % op.d_x.T);
    for (int64_t g = 0; g < groups; ++g) {
      T* part = d_x + g * op.group;
      const T* of_raw = raw + g * op.group;
      const T* d_out = part;
      const float rstd = op.rstd.data<float>()[n * groups + g];
      const float mean = op.sums ? op.sums.data<float>()[n] * rstd / static_cast<float>(op.whole)
                                 : RmsRowProducts(of_raw, d_out, factors, rstd, op.group) /
                                       static_cast<float>(op.group);
      RmsRowGradient(of_raw, d_out, factors, rstd, mean, op.group, /*add=*/false, part, d_weight);
    }
  }
}

template <class T>
void HeadNormSumsOf(const HeadNormSums& op, const float* factors, int64_t begin, int64_t end) {
  const int64_t C = op.x.C;
  for (int64_t n = begin; n < end; ++n) {
    const T* x = op.x.row<T>(n / op.x.T, n % op.x.T);
    op.sums.data<float>()[n] =
        op.raw ? RmsRowProducts(static_cast<const T*>(op.raw.data<T>() + n * C), x, factors, 1, C)
               : Dot(hn::ScalableTag<float>(), x, x, C);
  }
}

void HeadNormSumsRows(const HeadNormSums& op, const float* factors, int64_t begin, int64_t end) {
  WithNumber(op.x.dtype, [&]<class T>(T) { HeadNormSumsOf<T>(op, factors, begin, end); });
}

// Like RmsNormGradientRows, with d_weight (group).
void HeadNormGradientRows(const HeadNormBackward& op, const float* factors, int64_t begin,
                          int64_t end, float* d_weight) {
  WithNumber(op.d_x.dtype,
             [&]<class T>(T) { HeadNormGradientOf<T>(op, factors, begin, end, d_weight); });
}

// factors[c] = (weight[c] + offset) * scale
void RmsNormFactors(const float* weight, float offset, float scale, int64_t C, float* factors) {
  const hn::ScalableTag<float> d;
  const auto added = hn::Set(d, offset), factor = hn::Set(d, scale);
  Map(
      d, C, factors, [&](auto w) HWY_ATTR { return hn::Mul(hn::Add(w, added), factor); }, weight);
}

// sums[i] += (parts[0][i] + parts[1][i] + ...) * scale for i in [0, n), in this order; parts are
// `stride` apart.
void NormAddParts(const float* parts, int64_t count, int64_t stride, int64_t n, float scale,
                  float* sums) {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, scale);
  for (int64_t part = 0; part < count; ++part) {
    Map(
        d, n, sums, [&](auto a, auto b) HWY_ATTR { return hn::MulAdd(b, factor, a); }, sums,
        parts + part * stride);
  }
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(LayerNormRows);
HWY_EXPORT(LayerNormGradientRows);
HWY_EXPORT(NormAddParts);

namespace {

// Each chunk of rows sums its own part of the gradients of parameters; the parts are added in
// order. kChunks limits the memory of the parts, and at least 16 rows the time for adding them.
struct NormChunks {
  NormChunks(int64_t N, int64_t C)
      : rows(std::max({TaskRows(C), CeilDiv(N, kChunks), int64_t{16}})), count(CeilDiv(N, rows)) {}

  static constexpr int64_t kChunks = 256;
  int64_t rows, count;
};

// sums += the parts, which are `stride` apart, times `scale`.
void AddNormParts(const float* parts, const NormChunks& chunks, int64_t stride, double scale,
                  const Tensor& sums) {
  if (!sums) return;
  const int64_t columns = std::max<int64_t>(64, TaskRows(chunks.count));
  ParallelRange(sums.count(), columns, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(NormAddParts)
    (parts + begin, chunks.count, stride, end - begin, static_cast<float>(scale),
     sums.data<float>() + begin);
  });
}

}  // namespace

void Run(const LayerNormForward& op, Scratch&) {
  ParallelRange(op.x.dim(0), TaskRows(op.x.dim(1)), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(LayerNormRows)(op, begin, end);
  });
}

void Run(const LayerNormBackward& op, Scratch& scratch) {
  const int64_t N = op.x.dim(0), C = op.x.dim(1);
  const NormChunks chunks(N, C);
  float* parts = scratch.Get<float>(chunks.count * 2 * C);
  ParallelRange(N, chunks.rows, [&](int64_t begin, int64_t end, int) {
    float* part = parts + begin / chunks.rows * 2 * C;
    HWY_DYNAMIC_DISPATCH(LayerNormGradientRows)(op, begin, end, part, part + C);
  });
  AddNormParts(parts, chunks, 2 * C, 1, op.d_weight);
  AddNormParts(parts + C, chunks, 2 * C, 1, op.d_bias);
}

HWY_EXPORT(RmsNormRows);
HWY_EXPORT(RmsNormGradientRows);
HWY_EXPORT(HeadNormRows);
HWY_EXPORT(HeadNormGradientRows);
HWY_EXPORT(HeadNormSumsRows);
HWY_EXPORT(RmsNormFactors);

namespace {

// The factors of normalised rows of C: the weight itself, or computed from it in `memory`, which
// has room for C.
const float* NormFactors(const Tensor& weight, double offset, double scale, int64_t C,
                         float* memory) {
  if (!weight) {
    std::fill_n(memory, C, static_cast<float>(scale));
    return memory;
  }
  if (offset == 0 && scale == 1) return weight.data<float>();
  HWY_DYNAMIC_DISPATCH(RmsNormFactors)
  (weight.data<float>(), static_cast<float>(offset), static_cast<float>(scale), C, memory);
  return memory;
}

// Runs rows(factors, begin, end, d_weight) over N rows of `width` numbers, and adds their parts of
// d_weight, C numbers each, to it.
template <class Op, class F>
void RunNormGradient(const Op& op, int64_t N, int64_t width, int64_t C, double scale,
                     Scratch& scratch, const F& rows) {
  const NormChunks chunks(N, width);
  float* memory = scratch.Get<float>((chunks.count + 1) * C);
  const float* factors = NormFactors(op.weight, op.weight_offset, scale, C, memory);
  float* parts = memory + C;
  ParallelRange(N, chunks.rows, [&](int64_t begin, int64_t end, int) {
    float* part = op.d_weight ? parts + begin / chunks.rows * C : nullptr;
    if (part != nullptr) std::fill_n(part, C, 0.0f);
    rows(factors, begin, end, part);
  });
  AddNormParts(parts, chunks, C, scale, op.d_weight);
}

}  // namespace

void Run(const RmsNormForward& op, Scratch& scratch) {
  const int64_t C = op.x.dim(1);
  const float* factors = NormFactors(op.weight, op.weight_offset, 1, C, scratch.Get<float>(C));
  ParallelRange(op.x.dim(0), TaskRows(C), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(RmsNormRows)(op, factors, begin, end);
  });
}

void Run(const RmsNormBackward& op, Scratch& scratch) {
  const int64_t N = op.x.dim(0), C = op.x.dim(1);
  RunNormGradient(op, N, C, C, 1, scratch, [&](auto... args) {
    HWY_DYNAMIC_DISPATCH(RmsNormGradientRows)(op, args...);
  });
}

void Run(const HeadNormForward& op, Scratch& scratch) {
  const float* factors =
      NormFactors(op.weight, op.weight_offset, op.scale, op.group, scratch.Get<float>(op.group));
  ParallelRange(op.x.B * op.x.T, TaskRows(op.x.C), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(HeadNormRows)(op, factors, begin, end);
  });
}

void Run(const HeadNormBackward& op, Scratch& scratch) {
  const SequenceView& d_x = op.d_x;
  RunNormGradient(op, d_x.B * d_x.T, d_x.C, op.group, op.scale, scratch, [&](auto... args) {
    HWY_DYNAMIC_DISPATCH(HeadNormGradientRows)(op, args...);
  });
}

void Run(const HeadNormSums& op, Scratch& scratch) {
  const int64_t C = op.x.C;
  const float* factors =
      NormFactors(op.weight, op.weight_offset, op.scale, C, scratch.Get<float>(C));
  ParallelRange(op.x.B * op.x.T, TaskRows(C), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(HeadNormSumsRows)(op, factors, begin, end);
  });
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
