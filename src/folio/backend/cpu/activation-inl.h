// Activation functions and their derivatives on vectors of float32.

#if defined(FOLIO_BACKEND_CPU_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOLIO_BACKEND_CPU_ACTIVATION_INL_H_
#undef FOLIO_BACKEND_CPU_ACTIVATION_INL_H_
#else
#define FOLIO_BACKEND_CPU_ACTIVATION_INL_H_
#endif

#include <hwy/highway.h>

#include "folio/backend/cpu/math-inl.h"
#include "folio/backend/ops.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// gelu_new(x) = x logistic(x (kLinear + kCubic x^2)): 0.5 (1 + tanh u) is logistic(2u).
inline constexpr float kLinear = 1.5957691216057308f;           // 2 sqrt(2 / pi)
inline constexpr float kCubic = 0.044715 * 1.5957691216057308;  // rounded once

// The exponential e in gelu_new(c) = c / (1 + e), for c within [-10, 10].
template <class D, class V = hn::Vec<D>>
HWY_INLINE V GeluNewExp(D d, V c) {
  const auto slope = hn::MulAdd(hn::Mul(c, c), hn::Set(d, kCubic), hn::Set(d, kLinear));
  return ExpInRange(d, hn::Neg(hn::Mul(c, slope)));
}

// logistic(g(c)) of it.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V GeluNewLogistic(D d, V e) {
  return Reciprocal(d, hn::Add(hn::Set(d, 1.0f), e));
}

// Below -10 the result is smaller than 2e-37 and taken for 0; above 10 it is x to the last bit.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V GeluNew(D d, V x) {
  const auto e = GeluNewExp(d, Clamp(d, x, -10.0f, 10.0f));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -10.0f)), hn::Mul(x, GeluNewLogistic(d, e)));
}

// The derivative: with s = logistic(g(x)), it is s + x s (1 - s) g'(x). Beyond 10 it is 0 or 1 to
// the last bit.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V GeluNewSlope(D d, V x) {
  const auto c = Clamp(d, x, -10.0f, 10.0f);
  const auto e = GeluNewExp(d, c);
  const auto s = GeluNewLogistic(d, e);
  const auto steep = hn::MulAdd(hn::Mul(c, c), hn::Set(d, 3 * kCubic), hn::Set(d, kLinear));
  const auto rest = hn::Mul(hn::Mul(c, steep), hn::Mul(e, s));
  return hn::MulAdd(rest, s, s);
}

// activation(x), as a function of vectors.
template <Activation kind>
struct Activated {
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V operator()(D d, V x) const {
    if constexpr (kind == Activation::kGeluNew) return GeluNew(d, x);
    if constexpr (kind == Activation::kRelu) {
      return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
    }
    V cdf, pdf;
    Normal(d, x, cdf, pdf);
    return hn::Mul(x, cdf);
  }
};

// g activation'(x).
template <Activation kind>
struct ActivationGradient {
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V operator()(D d, V x, V g) const {
    if constexpr (kind == Activation::kGeluNew) return hn::Mul(g, GeluNewSlope(d, x));
    if constexpr (kind == Activation::kRelu) {
      return hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), g);
    }
    V cdf, pdf;
    Normal(d, x, cdf, pdf);
    return hn::Mul(g, hn::MulAdd(x, pdf, cdf));
  }
};

// f(Of<kind>()), for Of one of the two above.
template <template <Activation> class Of, class F>
HWY_INLINE void WithActivation(Activation kind, const F& f) {
  switch (kind) {
    case Activation::kGeluNew:
      return f(Of<Activation::kGeluNew>());
    case Activation::kGelu:
      return f(Of<Activation::kGelu>());
    case Activation::kRelu:
      return f(Of<Activation::kRelu>());
  }
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOLIO_BACKEND_CPU_ACTIVATION_INL_H_
