#include <algorithm>

#include "folio/backend/cpu/kernels.h"
#include "folio/base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/activation.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "folio/backend/cpu/math-inl.h"
#include "folio/backend/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {

// gelu_new(x) = x logistic(x (kLinear + kCubic x^2)): 0.5 (1 + tanh u) is logistic(2u).
constexpr float kLinear = 1.5957691216057308f;           // 2 sqrt(2 / pi)
constexpr float kCubic = 0.044715 * 1.5957691216057308;  // rounded once

void ActivationRange(const ActivationForward& op, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  const float* x = op.x.data<float>() + begin;
  float* out = op.out.data<float>() + begin;
  const int64_t n = end - begin;
  switch (op.kind) {
    case Activation::kGeluNew:
      return Map(
          d, n, out,
          [d](auto v) HWY_ATTR {
            const auto slope = hn::MulAdd(hn::Mul(v, v), hn::Set(d, kCubic), hn::Set(d, kLinear));
            const auto one = hn::Set(d, 1.0f);
            return hn::Div(v, hn::Add(one, Exp(d, hn::Neg(hn::Mul(v, slope)))));
          },
          x);
    case Activation::kGelu:
      return Map(
          d, n, out,
          [d](auto v) HWY_ATTR {
            hn::Vec<decltype(d)> cdf, pdf;
            Normal(d, v, cdf, pdf);
            return hn::Mul(v, cdf);
          },
          x);
    case Activation::kRelu:
      return Map(
          d, n, out, [d](auto v) HWY_ATTR { return hn::IfThenZeroElse(hn::Lt(v, hn::Zero(d)), v); },
          x);
  }
}

void ActivationGradientRange(const ActivationBackward& op, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  const float* x = op.x.data<float>() + begin;
  const float* d_out = op.d_out.data<float>() + begin;
  float* d_x = op.d_x.data<float>() + begin;
  const int64_t n = end - begin;
  switch (op.kind) {
    case Activation::kGeluNew:
      // With s = logistic(g(x)), the derivative is s + x s (1 - s) g'(x). Beyond 10 it is 0 or 1 to
      // the last bit; clamping keeps exp finite there.
      return Map(
          d, n, d_x,
          [d](auto v, auto g) HWY_ATTR {
            const auto one = hn::Set(d, 1.0f);
            const auto c = Clamp(d, v, -10.0f, 10.0f);
            const auto square = hn::Mul(c, c);
            const auto slope = hn::MulAdd(square, hn::Set(d, kCubic), hn::Set(d, kLinear));
            const auto e = Exp(d, hn::Neg(hn::Mul(c, slope)));
            const auto s = hn::Div(one, hn::Add(one, e));
            const auto steep = hn::MulAdd(square, hn::Set(d, 3 * kCubic), hn::Set(d, kLinear));
            const auto rest = hn::Mul(hn::Mul(c, steep), hn::Mul(e, s));
            return hn::Mul(g, hn::MulAdd(rest, s, s));
          },
          x, d_out);
    case Activation::kGelu:
      return Map(
          d, n, d_x,
          [d](auto v, auto g) HWY_ATTR {
            hn::Vec<decltype(d)> cdf, pdf;
            Normal(d, v, cdf, pdf);
            return hn::Mul(g, hn::MulAdd(v, pdf, cdf));
          },
          x, d_out);
    case Activation::kRelu:
      return Map(
          d, n, d_x,
          [d](auto v, auto g) HWY_ATTR { return hn::IfThenElseZero(hn::Gt(v, hn::Zero(d)), g); }, x,
          d_out);
  }
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(ActivationRange);
HWY_EXPORT(ActivationGradientRange);

void RunActivation(const ActivationForward& op) {
  ParallelRange(op.x.count(), kTaskElements, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(ActivationRange)(op, begin, end);
  });
}

void RunActivation(const ActivationBackward& op) {
  ParallelRange(op.x.count(), kTaskElements, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(ActivationGradientRange)(op, begin, end);
  });
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
