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

// The exponential in gelu_new(x) = x / (1 + e).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V GeluNewExp(D d, V x) {
  const auto slope = hn::MulAdd(hn::Mul(x, x), hn::Set(d, kCubic), hn::Set(d, kLinear));
  return Exp(d, hn::Neg(hn::Mul(x, slope)));
}

// The derivative of gelu_new at x, with e = GeluNewExp(c) of c, which is x within [-10, 10]. With
// s = logistic(g(x)), it is s + x s (1 - s) g'(x). Beyond 10 it is 0 or 1 to the last bit; clamping
// keeps exp finite there.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V GeluNewSlope(D d, V c, V e) {
  const auto one = hn::Set(d, 1.0f);
  const auto s = hn::Div(one, hn::Add(one, e));
  const auto steep = hn::MulAdd(hn::Mul(c, c), hn::Set(d, 3 * kCubic), hn::Set(d, kLinear));
  const auto rest = hn::Mul(hn::Mul(c, steep), hn::Mul(e, s));
  return hn::MulAdd(rest, s, s);
}

template <class T>
void ActivationArray(Activation kind, const T* x, int64_t n, T* out) {
  const hn::ScalableTag<float> d;
  switch (kind) {
    case Activation::kGeluNew:
      return Map(
          d, n, out,
          [d](auto v) HWY_ATTR { return hn::Div(v, hn::Add(hn::Set(d, 1.0f), GeluNewExp(d, v))); },
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

template <class T>
void ActivationGradient(Activation kind, const T* x, const T* d_out, int64_t n, T* d_x) {
  const hn::ScalableTag<float> d;
  switch (kind) {
    case Activation::kGeluNew:
      return Map(
          d, n, d_x,
          [d](auto v, auto g) HWY_ATTR {
            const auto c = Clamp(d, v, -10.0f, 10.0f);
            return hn::Mul(g, GeluNewSlope(d, c, GeluNewExp(d, c)));
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

// d_x as ActivationGradient makes it and out as ActivationArray does, to the last bit.
template <class T>
void ActivationBoth(Activation kind, const T* x, const T* d_out, int64_t n, T* d_x, T* out) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  if (kind == Activation::kGeluNew) {
    const auto lowest = hn::Set(d, -10.0f);
    const auto highest_e = GeluNewExp(d, lowest);
    MapPair(
        d, n, d_x, out,
        [&](auto v, auto g, V& dv, V& y) HWY_ATTR {
          const auto e = GeluNewExp(d, v);
          y = hn::Div(v, hn::Add(hn::Set(d, 1.0f), e));
          // Above 10, e is too small beside 1 to be seen.
          const auto finite = hn::IfThenElse(hn::Lt(v, lowest), highest_e, e);
          dv = hn::Mul(g, GeluNewSlope(d, Clamp(d, v, -10.0f, 10.0f), finite));
        },
        x, d_out);
  } else if (kind == Activation::kGelu) {
    MapPair(
        d, n, d_x, out,
        [d](auto v, auto g, V& dv, V& y) HWY_ATTR {
          V cdf, pdf;
          Normal(d, v, cdf, pdf);
          y = hn::Mul(v, cdf);
          dv = hn::Mul(g, hn::MulAdd(v, pdf, cdf));
        },
        x, d_out);
  } else {
    ActivationGradient(kind, x, d_out, n, d_x);
    ActivationArray(kind, x, n, out);
  }
}

template <class T>
void ActivationGradientOf(const ActivationBackward& op, int64_t begin, int64_t end) {
  const T* x = op.x.data<T>() + begin;
  const T* d_out = op.d_out.data<T>() + begin;
  T* d_x = op.d_x.data<T>() + begin;
  if (op.out) {
    ActivationBoth(op.kind, x, d_out, end - begin, d_x, op.out.data<T>() + begin);
  } else {
    ActivationGradient(op.kind, x, d_out, end - begin, d_x);
  }
}

void ActivationRange(const ActivationForward& op, int64_t begin, int64_t end) {
  if (op.x.dtype() == Dtype::kBF16) {
    ActivationArray(op.kind, op.x.data<BF16>() + begin, end - begin, op.out.data<BF16>() + begin);
  } else {
    ActivationArray(op.kind, op.x.data<float>() + begin, end - begin, op.out.data<float>() + begin);
  }
}

void ActivationGradientRange(const ActivationBackward& op, int64_t begin, int64_t end) {
  if (op.x.dtype() == Dtype::kBF16) {
    ActivationGradientOf<BF16>(op, begin, end);
  } else {
    ActivationGradientOf<float>(op, begin, end);
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
