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

// logistic(g(c)) of e = GeluNewExp(c).
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

// x logistic(kSlope x): SiLU for 1, quick GELU for 1.702. Below -87 / kSlope the result is smaller
// than 2e-36 and taken for 0.
inline constexpr float kQuickGeluSlope = 1.702f;

template <class D, class V = hn::Vec<D>>
HWY_INLINE V LogisticExp(D d, V u) {
  return ExpInRange(d, hn::Neg(Clamp(d, u, -87.0f, 87.0f)));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Swish(D d, V x, float slope) {
  const auto u = hn::Mul(x, hn::Set(d, slope));
  const auto s = Reciprocal(d, hn::Add(hn::Set(d, 1.0f), LogisticExp(d, u)));
  return hn::IfThenZeroElse(hn::Lt(u, hn::Set(d, -87.0f)), hn::Mul(x, s));
}

// With u = slope x and s = logistic(u) the derivative is s + u s (1 - s).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V SwishSlope(D d, V x, float slope) {
  const auto u = Clamp(d, hn::Mul(x, hn::Set(d, slope)), -87.0f, 87.0f);
  const auto e = LogisticExp(d, u);
  const auto s = Reciprocal(d, hn::Add(hn::Set(d, 1.0f), e));
  return hn::MulAdd(hn::Mul(u, hn::Mul(e, s)), s, s);
}

// (1 - e) / (1 + e) with e = exp(-2 |x|), and near 0, where that cancels, the series.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Tanh(D d, V x) {
  const auto one = hn::Set(d, 1.0f);
  const auto a = hn::Abs(Clamp(d, x, -10.0f, 10.0f));
  const auto e = ExpInRange(d, hn::Mul(a, hn::Set(d, -2.0f)));
  const auto far = hn::Mul(hn::Sub(one, e), Reciprocal(d, hn::Add(one, e)));
  const auto square = hn::Mul(a, a);
  auto p = hn::Set(d, 62.0f / 2835);
  p = hn::MulAdd(p, square, hn::Set(d, -17.0f / 315));
  p = hn::MulAdd(p, square, hn::Set(d, 2.0f / 15));
  p = hn::MulAdd(p, square, hn::Set(d, -1.0f / 3));
  const auto near = hn::MulAdd(hn::Mul(a, square), p, a);
  return hn::CopySign(hn::IfThenElse(hn::Lt(a, hn::Set(d, 0.25f)), near, far), x);
}

// 4 e / (1 + e)^2.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V TanhSlope(D d, V x) {
  const auto a = hn::Abs(Clamp(d, x, -43.0f, 43.0f));
  const auto e = ExpInRange(d, hn::Mul(a, hn::Set(d, -2.0f)));
  const auto s = Reciprocal(d, hn::Add(hn::Set(d, 1.0f), e));
  return hn::Mul(hn::Mul(hn::Set(d, 4.0f), e), hn::Mul(s, s));
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
    if constexpr (kind == Activation::kSilu) return Swish(d, x, 1.0f);
    if constexpr (kind == Activation::kQuickGelu) return Swish(d, x, kQuickGeluSlope);
    if constexpr (kind == Activation::kTanh) return Tanh(d, x);
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
    if constexpr (kind == Activation::kSilu) return hn::Mul(g, SwishSlope(d, x, 1.0f));
    if constexpr (kind == Activation::kQuickGelu)
      return hn::Mul(g, SwishSlope(d, x, kQuickGeluSlope));
    if constexpr (kind == Activation::kTanh) return hn::Mul(g, TanhSlope(d, x));
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
    case Activation::kSilu:
      return f(Of<Activation::kSilu>());
    case Activation::kQuickGelu:
      return f(Of<Activation::kQuickGelu>());
    case Activation::kTanh:
      return f(Of<Activation::kTanh>());
  }
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOLIO_BACKEND_CPU_ACTIVATION_INL_H_
