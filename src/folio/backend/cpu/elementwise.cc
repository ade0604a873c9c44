#include <algorithm>

#include "folio/backend/cpu/kernels.h"
#include "folio/base/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/elementwise.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "folio/backend/cpu/math-inl.h"
#include "folio/backend/cpu/philox-inl.h"
#include "folio/backend/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {

// out = residual + x; residual may be null.
template <class In, class Out>
void ResidualSum(const float* residual, const In* x, int64_t n, Out* out) {
  const hn::ScalableTag<float> d;
  if (residual == nullptr) {
    Map(
        d, n, out, [](auto a) HWY_ATTR { return a; }, x);
  } else {
    Map(
        d, n, out, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); }, residual, x);
  }
}

// out = residual + dropout(x) for rows [begin, end) of C columns; residual may be null.
template <class In, class Out>
void ResidualDropout(const Dropout& dropout, const float* residual, const In* x, int64_t C,
                     int64_t begin, int64_t end, Out* out) {
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

template <class In, class Out>
void ResidualOf(const Dropout& dropout, const float* residual, const Tensor& x, const Tensor& out,
                int64_t begin, int64_t end) {
  const int64_t C = x.dim(1);
  const In* from = x.data<In>();
  Out* to = out.data<Out>();
  if (dropout.active()) return ResidualDropout(dropout, residual, from, C, begin, end, to);
  const int64_t at = begin * C;
  if (residual != nullptr) residual += at;
  ResidualSum(residual, from + at, (end - begin) * C, to + at);
}

// out = residual + dropout(x) for rows [begin, end); with a residual out is not BF16.
void ResidualRows(const Dropout& dropout, const float* residual, const Tensor& x, const Tensor& out,
                  int64_t begin, int64_t end) {
  const bool half_x = x.dtype() == Dtype::kBF16, half_out = out.dtype() == Dtype::kBF16;
  if (half_x && half_out) {
    ResidualOf<BF16, BF16>(dropout, residual, x, out, begin, end);
  } else if (half_x) {
    ResidualOf<BF16, float>(dropout, residual, x, out, begin, end);
  } else if (half_out) {
    ResidualOf<float, BF16>(dropout, residual, x, out, begin, end);
  } else {
    ResidualOf<float, float>(dropout, residual, x, out, begin, end);
  }
}

template <class T>
void ActivationOf(const ActivationForward& op, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  WithActivation<Activated>(op.kind, [&](auto activate) HWY_ATTR {
    Map(
        d, end - begin, op.out.data<T>() + begin, [=](auto v) HWY_ATTR { return activate(d, v); },
        static_cast<const T*>(op.x.data<T>() + begin));
  });
}

template <class T>
void ActivationGradientOf(const ActivationBackward& op, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  WithActivation<ActivationGradient>(op.kind, [&](auto gradient) HWY_ATTR {
    Map(
        d, end - begin, op.d_x.data<T>() + begin,
        [=](auto v, auto g) HWY_ATTR { return gradient(d, v, g); },
        static_cast<const T*>(op.x.data<T>() + begin),
        static_cast<const T*>(op.d_out.data<T>() + begin));
  });
}

void ActivationRange(const ActivationForward& op, int64_t begin, int64_t end) {
  op.x.dtype() == Dtype::kBF16 ? ActivationOf<BF16>(op, begin, end)
                               : ActivationOf<float>(op, begin, end);
}

void ActivationGradientRange(const ActivationBackward& op, int64_t begin, int64_t end) {
  op.x.dtype() == Dtype::kBF16 ? ActivationGradientOf<BF16>(op, begin, end)
                               : ActivationGradientOf<float>(op, begin, end);
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(ResidualRows);
HWY_EXPORT(ActivationRange);
HWY_EXPORT(ActivationGradientRange);

namespace {

void RunResidual(const Dropout& dropout, const Tensor& residual, const Tensor& x,
                 const Tensor& out) {
  if (!dropout.active() && !residual && x.raw() == out.raw()) return;
  ParallelRange(x.dim(0), TaskRows(x.dim(1)), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(ResidualRows)(dropout, residual.data<float>(), x, out, begin, end);
  });
}

}  // namespace

void Run(const ResidualForward& op, Scratch&) {
  RunResidual(op.dropout, op.residual, op.x, op.out);
}

void Run(const ResidualBackward& op, Scratch&) {
  RunResidual(op.dropout, {}, op.d_out, op.d_x);
}

void Run(const ActivationForward& op, Scratch&) {
  ParallelRange(op.x.count(), kTaskElements, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(ActivationRange)(op, begin, end);
  });
}

void Run(const ActivationBackward& op, Scratch&) {
  ParallelRange(op.x.count(), kTaskElements, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(ActivationGradientRange)(op, begin, end);
  });
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
