#include <algorithm>

#include "folio/backend/cpu/attention_rows.h"
#include "folio/backend/cpu/kernels.h"
#include "folio/base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/softmax.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "folio/backend/cpu/math-inl.h"
#include "folio/backend/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {

// out = x / sum of x, zeros where that is 0. Returns the sum.
float NormalizeRow(const float* x, int64_t n, float* out) {
  const hn::ScalableTag<float> d;
  const float sum = Sum(d, x, n);
  if (sum == 0) {
    std::fill_n(out, n, 0.0f);
    return sum;
  }
  const auto divisor = hn::Set(d, sum);
  Map(
      d, n, out, [divisor](auto v) HWY_ATTR { return hn::Div(v, divisor); }, x);
  return sum;
}

void NaiveSoftmaxRow(const float* x, int64_t n, float* out) {
  const hn::ScalableTag<float> d;
  Map(
      d, n, out, [d](auto v) HWY_ATTR { return Exp(d, v); }, x);
  NormalizeRow(out, n, out);
}

// d_x = out * (d_out - sum of out * d_out)
void SoftmaxGradientRow(const float* out, const float* d_out, int64_t n, float* d_x) {
  const hn::ScalableTag<float> d;
  const auto mean = hn::Set(d, Dot(d, out, d_out, n));
  Map(
      d, n, d_x, [mean](auto y, auto g) HWY_ATTR { return hn::Mul(y, hn::Sub(g, mean)); }, out,
      d_out);
}

// d_x = (d_out - sum of out * d_out) / sum, zeros where that is 0.
void NormalizeGradientRow(const float* out, float sum, const float* d_out, int64_t n, float* d_x) {
  if (sum == 0) return static_cast<void>(std::fill_n(d_x, n, 0.0f));
  const hn::ScalableTag<float> d;
  const auto mean = hn::Set(d, Dot(d, out, d_out, n)), divisor = hn::Set(d, sum);
  Map(
      d, n, d_x, [mean, divisor](auto g) HWY_ATTR { return hn::Div(hn::Sub(g, mean), divisor); },
      d_out);
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(NormalizeRow);
HWY_EXPORT(NaiveSoftmaxRow);
HWY_EXPORT(SoftmaxGradientRow);
HWY_EXPORT(NormalizeGradientRow);

namespace {

// Calls f(row) for each row of a (N,S) tensor, on all threads.
template <class F>
void ForRows(const Tensor& x, F&& f) {
  ParallelRange(x.dim(0), TaskRows(x.dim(1)), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) f(row);
  });
}

float* RowOf(const Tensor& x, int64_t row) {
  return x.data<float>() + row * x.dim(1);
}

}  // namespace

void RunSoftmax(const SoftmaxForward& op) {
  const int64_t S = op.x.dim(1);
  ForRows(op.x, [&](int64_t row) {
    const float* x = RowOf(op.x, row);
    float* out = RowOf(op.out, row);
    if (op.naive) return HWY_DYNAMIC_DISPATCH(NaiveSoftmaxRow)(x, S, out);
    if (x != out) std::copy_n(x, S, out);
    SoftmaxRow(out, S, S, nullptr);
  });
}

void RunSoftmax(const SoftmaxBackward& op) {
  const int64_t S = op.out.dim(1);
  ForRows(op.out, [&](int64_t row) {
    HWY_DYNAMIC_DISPATCH(SoftmaxGradientRow)
    (RowOf(op.out, row), RowOf(op.d_out, row), S, RowOf(op.d_x, row));
  });
}

void RunNormalize(const NormalizeForward& op) {
  const int64_t S = op.x.dim(1);
  ForRows(op.x, [&](int64_t row) {
    op.sums.data<float>()[row] =
        HWY_DYNAMIC_DISPATCH(NormalizeRow)(RowOf(op.x, row), S, RowOf(op.out, row));
  });
}

void RunNormalize(const NormalizeBackward& op) {
  const int64_t S = op.out.dim(1);
  ForRows(op.out, [&](int64_t row) {
    HWY_DYNAMIC_DISPATCH(NormalizeGradientRow)
    (RowOf(op.out, row), op.sums.data<float>()[row], RowOf(op.d_out, row), S, RowOf(op.d_x, row));
  });
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
