#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <numbers>

#include "folio/backend/ops.h"
#include "folio/backend/reference/number.h"

namespace folio::reference {

inline double Erf(double x) {
  return std::erf(x);
}
// First order in the imaginary part: exact for the tiny ones that carry a derivative.
inline std::complex<double> Erf(std::complex<double> x) {
  const double a = x.real();
  return {std::erf(a), x.imag() * 2 * std::numbers::inv_sqrtpi * std::exp(-a * a)};
}

inline constexpr double kGeluCubic = 0.044715, kQuickGeluSlope = 1.702;
inline const double kSqrt2OverPi = std::sqrt(2 / std::numbers::pi);

template <class W>
W Logistic(W x) {
  using std::exp;
  return 1.0 / (1.0 + exp(-x));
}

template <class W>
W Activate(Activation kind, W x) {
  using std::tanh;
  switch (kind) {
    case Activation::kGeluNew:
      return 0.5 * x * (1.0 + tanh(kSqrt2OverPi * (x + kGeluCubic * x * x * x)));
    case Activation::kGelu:
      return 0.5 * x * (1.0 + Erf(x / std::numbers::sqrt2));
    case Activation::kRelu:
      return std::real(x) > 0 ? x : W(0);
    case Activation::kSilu:
      return x * Logistic(x);
    case Activation::kQuickGelu:
      return x * Logistic(kQuickGeluSlope * x);
    case Activation::kTanh:
      return tanh(x);
  }
  return x;
}

// The derivative at x.
template <class W>
W ActivationSlope(Activation kind, W x) {
  using std::exp, std::tanh;
  switch (kind) {
    case Activation::kGeluNew: {
      const W t = tanh(kSqrt2OverPi * (x + kGeluCubic * x * x * x));
      const W inner = kSqrt2OverPi * (1.0 + 3 * kGeluCubic * x * x);
      return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner;
    }
    case Activation::kGelu: {
      const double density = std::numbers::inv_sqrtpi / std::numbers::sqrt2;  // 1 / sqrt(2 pi)
      return 0.5 * (1.0 + Erf(x / std::numbers::sqrt2)) + x * density * exp(-0.5 * x * x);
    }
    case Activation::kRelu:
      return std::real(x) > 0 ? W(1) : W(0);
    case Activation::kSilu:
    case Activation::kQuickGelu: {
      const double a = kind == Activation::kSilu ? 1 : kQuickGeluSlope;
      const W s = Logistic(a * x);
      return s + a * x * s * (1.0 - s);
    }
    case Activation::kTanh: {
      const W t = tanh(x);
      return 1.0 - t * t;
    }
  }
  return x;
}

template <class Number>
void ActivationForward(Activation kind, const Number* x, Number* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = Number(Activate(kind, Wide<Number>(x[i])));
}

template <class Number>
void ActivationBackward(Activation kind, const Number* x, const Number* d_out, Number* d_x,
                        int64_t count) {
  using W = Wide<Number>;
  for (int64_t i = 0; i < count; ++i) {
    d_x[i] = Number(W(d_out[i]) * ActivationSlope(kind, W(x[i])));
  }
}

}  // namespace folio::reference
