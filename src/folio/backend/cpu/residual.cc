#include <algorithm>

#include "folio/backend/cpu/kernels.h"
#include "folio/base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/residual.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "folio/backend/cpu/philox-inl.h"
#include "folio/backend/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {

void ResidualSum(const float* residual, const float* x, int64_t n, float* out) {
  const hn::ScalableTag<float> d;
  Map(
      d, n, out, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); }, residual, x);
}

// out = residual + dropout(x) for rows [begin, end) of C columns; residual may be null.
void ResidualDropoutRows(const Dropout& dropout, const float* residual, const float* x, float* out,
                         int64_t C, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  HWY_ALIGN float factors[64];
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t column = 0; column < C; column += 64) {
      DropoutFactors(dropout, row, C, column, factors);
      const int64_t at = row * C + column, n = std::min<int64_t>(64, C - column);
      if (residual == nullptr) {
        Map(
            d, n, out + at, [](auto a, auto f) HWY_ATTR { return hn::Mul(a, f); }, x + at, factors);
      } else {
        Map(
            d, n, out + at, [](auto r, auto a, auto f) HWY_ATTR { return hn::MulAdd(a, f, r); },
            residual + at, x + at, factors);
      }
    }
  }
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(ResidualSum);
HWY_EXPORT(ResidualDropoutRows);

namespace {

void Copy(const Tensor& from, const Tensor& to) {
  if (from.raw() == to.raw()) return;
  ParallelRange(from.count(), kTaskElements, [&](int64_t begin, int64_t end, int) {
    std::copy_n(from.data<float>() + begin, end - begin, to.data<float>() + begin);
  });
}

void RunDropout(const Dropout& dropout, const Tensor& residual, const Tensor& x,
                const Tensor& out) {
  const int64_t C = x.dim(1);
  ParallelRange(x.dim(0), TaskRows(C), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(ResidualDropoutRows)
    (dropout, residual.data<float>(), x.data<float>(), out.data<float>(), C, begin, end);
  });
}

}  // namespace

void RunResidual(const ResidualForward& op) {
  if (op.dropout.active()) return RunDropout(op.dropout, op.residual, op.x, op.out);
  if (!op.residual) return Copy(op.x, op.out);
  const float* residual = op.residual.data<float>();
  const float* x = op.x.data<float>();
  float* out = op.out.data<float>();
  ParallelRange(op.x.count(), kTaskElements, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(ResidualSum)(residual + begin, x + begin, end - begin, out + begin);
  });
}

void RunResidual(const ResidualBackward& op) {
  if (op.dropout.active()) return RunDropout(op.dropout, {}, op.d_out, op.d_x);
  Copy(op.d_out, op.d_x);
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
