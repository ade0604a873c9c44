// Vector exp, the normal distribution and the activations, for float32.

#if defined(FOLIO_BACKEND_CPU_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOLIO_BACKEND_CPU_MATH_INL_H_
#undef FOLIO_BACKEND_CPU_MATH_INL_H_
#else
#define FOLIO_BACKEND_CPU_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "folio/backend/ops.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// x within [low, high], NaN if x is NaN: comparisons are false then, whereas Min and Max differ
// between machines.
template <class D>
HWY_INLINE hn::Vec<D> Clamp(D d, hn::Vec<D> x, float low, float high) {
  const auto lowest = hn::Set(d, low), highest = hn::Set(d, high);
  x = hn::IfThenElse(hn::Lt(x, lowest), lowest, x);
  return hn::IfThenElse(hn::Gt(x, highest), highest, x);
}

// 1 / x within 2 units in the last place, for normal x up to 2^126. If a division takes as long as
// ten products it is an approximation and one Newton step.
template <class D>
HWY_INLINE hn::Vec<D> Reciprocal(D d, hn::Vec<D> x) {
  const auto one = hn::Set(d, 1.0f);
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  const auto y = hn::ApproximateReciprocal(x);
  return hn::MulAdd(y, hn::NegMulAdd(x, y, one), y);
#else
  return hn::Div(one, x);
#endif
}

// exp(x) within 2 units in the last place, for x from -87.336 to 88.72; NaN for NaN.
//
// x = n ln 2 + r with |r| <= ln 2 / 2, exp(x) = 2^n exp(r), and exp(r) - 1 - r = r^2 q(r) with q a
// minimax polynomial.
template <class D>
HWY_INLINE hn::Vec<D> ExpInRange(D d, hn::Vec<D> x) {
  const hn::RebindToSigned<D> di;
  // Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits.
  const auto magic = hn::Set(d, 12582912.0f);
  const auto biased = hn::MulAdd(x, hn::Set(d, 1.44269504f), magic);
  const auto n = hn::Sub(biased, magic);
  // ln 2 in two parts; the first has so few bits that n times it is exact.
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  auto q = hn::Set(d, 0.0013813881f);
  q = hn::MulAdd(q, r, hn::Set(d, 0.008369063f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.041668423f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.16666518f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.49999994f));
  const auto p = hn::Add(hn::MulAdd(hn::Mul(r, r), q, r), hn::Set(d, 1.0f));
  // The shift leaves only n in the exponent's place.
  const auto power = hn::ShiftLeft<23>(hn::BitCast(di, biased));
  return hn::BitCast(d, hn::Add(hn::BitCast(di, p), power));
}

// exp(x) within 2 units in the last place. 0 if the result would be subnormal, that is below
// 1.18e-38; infinity if float32 overflows; NaN for NaN.
template <class D>
HWY_INLINE hn::Vec<D> Exp(D d, hn::Vec<D> x) {
  const auto y = ExpInRange(d, x);
  const auto finite = hn::IfThenElse(hn::Gt(x, hn::Set(d, 88.722839f)), hn::Inf(d), y);
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.336545f)), finite);
}

// Distribution function and density of the standard normal:
//   cdf = (1 + erf(x / sqrt 2)) / 2,  pdf = exp(-x^2 / 2) / sqrt(2 pi).
// Relative errors of both are a few units in the last place, times x^2 / 4 in the tails where the
// target has no fused multiply-add.
//
// For a = |x|, cdf(-a) = exp(-a^2 / 2) P((a - 3) / (a + 3)) / (a + 3): the factor beside the
// exponential is smooth over the whole half-line, and P is its minimax polynomial for a <= 14,
// beyond which cdf(-a) is 0 in float32.
template <class D>
HWY_INLINE void Normal(D d, hn::Vec<D> x, hn::Vec<D>& cdf, hn::Vec<D>& pdf) {
  const auto a = hn::Min(hn::Set(d, 15.0f), hn::Abs(x));
  const auto half = hn::Mul(a, hn::Set(d, 0.5f));
  const auto square = hn::Mul(a, half);
  const auto rest = hn::MulSub(a, half, square);  // the rounding error of the square
  const auto e = Exp(d, hn::Neg(square));
  const auto density = hn::NegMulAdd(e, rest, e);
  const auto one = hn::Set(d, 1.0f);
  const auto inverse = hn::Div(one, hn::Add(a, hn::Set(d, 3.0f)));
  const auto s = hn::NegMulAdd(hn::Set(d, 6.0f), inverse, one);
  auto p = hn::Set(d, -0.00026676618f);
  p = hn::MulAdd(p, s, hn::Set(d, -0.00090325222f));
  p = hn::MulAdd(p, s, hn::Set(d, 0.0010760367f));
  p = hn::MulAdd(p, s, hn::Set(d, 0.0069239219f));
  p = hn::MulAdd(p, s, hn::Set(d, -0.010479935f));
  p = hn::MulAdd(p, s, hn::Set(d, -0.047256101f));
  p = hn::MulAdd(p, s, hn::Set(d, 0.23001935f));
  p = hn::MulAdd(p, s, hn::Set(d, -0.50933230f));
  p = hn::MulAdd(p, s, hn::Set(d, 0.72908366f));
  const auto tail = hn::Mul(density, hn::Mul(p, inverse));
  cdf = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(one, tail));
  pdf = hn::Mul(density, hn::Set(d, 0.39894228f));
}

// ---- Activation functions and their derivatives -------------------------------------------------

// gelu_new(x) = x logistic(x (kLinear + kCubic x^2)): 0.5 (1 + tanh u) is logistic(2u).
inline constexpr float kLinear = 1.5957691216057308f;           // 2 sqrt(2 / pi)
inline constexpr float kCubic = 0.044715 * 1.5957691216057308;  // rounded once

// The exponential e in gelu_new(c) = c / (1 + e), for c within [-10, 10].
template <class D, class V = hn::Vec<D>>
HWY_INLINE V GeluNewExp(D d, V c) {
  const auto slope = hn::MulAdd(hn::Mul(c, c), hn::Set(d, kCubic), hn::Set(d, kLinear));
  return ExpInRange(d, hn::Neg(hn::Mul(c, slope)));
}

// logistic(g(c)) from e = GeluNewExp(c).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V GeluNewLogistic(D d, V e) {
  return Reciprocal(d, hn::Add(hn::Set(d, 1.0f), e));
}

// Below -10 the result is smaller than 2e-37 and set to 0; above 10 it is x to the last bit.
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
// than 2e-36 and set to 0.
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

// With u = slope x and s = logistic(u) the derivative is s + u s (1 - s). The exponential is the
// one in Swish, so that a compiler merges both if a gate needs both.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V SwishSlope(D d, V x, float slope) {
  const auto u = hn::Mul(x, hn::Set(d, slope));
  const auto e = LogisticExp(d, u);
  const auto s = Reciprocal(d, hn::Add(hn::Set(d, 1.0f), e));
  return hn::MulAdd(hn::Mul(Clamp(d, u, -87.0f, 87.0f), hn::Mul(e, s)), s, s);
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
    if constexpr (kind == Activation::kRelu2) {
      return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), hn::Mul(x, x));
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
    if constexpr (kind == Activation::kSilu) return hn::Mul(g, SwishSlope(d, x, 1.0f));
    if constexpr (kind == Activation::kQuickGelu)
      return hn::Mul(g, SwishSlope(d, x, kQuickGeluSlope));
    if constexpr (kind == Activation::kTanh) return hn::Mul(g, TanhSlope(d, x));
    if constexpr (kind == Activation::kRelu2) {
      return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), hn::Mul(g, hn::Add(x, x)));
    }
    V cdf, pdf;
    Normal(d, x, cdf, pdf);
    return hn::Mul(g, hn::MulAdd(x, pdf, cdf));
  }
};

// Calls f(Of<kind>()), where Of is one of the two above.
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
    case Activation::kRelu2:
      return f(Of<Activation::kRelu2>());
  }
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOLIO_BACKEND_CPU_MATH_INL_H_
