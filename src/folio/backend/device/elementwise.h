#pragma once

// Operations on each element by itself: a thread has an element, and in-place work stays in place.

#include "folio/backend/device/dropout.h"
#include "folio/backend/ops.h"

namespace folio::device {

FOLIO_DEVICE float Logistic(float x) {
  return 1.0f / (1.0f + expf(-x));
}

inline constexpr float kGeluCubic = 0.044715f, kQuickGeluSlope = 1.702f;
inline constexpr float kSqrt2OverPi = 0.797884560802865356f, kSqrtHalf = 0.707106781186547524f;
inline constexpr float kNormalDensity = 0.398942280401432678f;  // 1 / sqrt(2 pi)

// 1 + tanh(y) is written as 2 / (1 + exp(-2 y)), and 1 + erf(y) as erfc(-y): nothing cancels.
FOLIO_DEVICE float Activate(Activation kind, float x) {
  switch (kind) {
    case Activation::kGeluNew:
      return x * Logistic(2 * kSqrt2OverPi * (x + kGeluCubic * x * x * x));
    case Activation::kGelu:
      return 0.5f * x * erfcf(-x * kSqrtHalf);
    case Activation::kRelu:
      return x > 0 ? x : 0.0f;
    case Activation::kSilu:
      return x * Logistic(x);
    case Activation::kQuickGelu:
      return x * Logistic(kQuickGeluSlope * x);
    case Activation::kTanh:
      return tanhf(x);
    case Activation::kRelu2:
      return x > 0 ? x * x : 0.0f;
  }
  return x;
}

// The derivative of x logistic(y) for a y with the derivative `slope`.
FOLIO_DEVICE float LogisticSlope(float x, float y, float slope) {
  const float gate = Logistic(y), rest = gate * Logistic(-y);
  return rest == 0 ? gate : gate + x * rest * slope;
}

FOLIO_DEVICE float ActivationSlope(Activation kind, float x) {
  switch (kind) {
    case Activation::kGeluNew:
      return LogisticSlope(x, 2 * kSqrt2OverPi * (x + kGeluCubic * x * x * x),
                           2 * kSqrt2OverPi * (1 + 3 * kGeluCubic * x * x));
    case Activation::kGelu:
      return 0.5f * erfcf(-x * kSqrtHalf) + x * kNormalDensity * expf(-0.5f * x * x);
    case Activation::kRelu:
      return x > 0 ? 1.0f : 0.0f;
    case Activation::kSilu:
      return LogisticSlope(x, x, 1);
    case Activation::kQuickGelu:
      return LogisticSlope(x, kQuickGeluSlope * x, kQuickGeluSlope);
    case Activation::kTanh: {
      const float t = tanhf(x);
      return 1 - t * t;
    }
    case Activation::kRelu2:
      return x > 0 ? 2 * x : 0.0f;
  }
  return x;
}

template <class Low>
FOLIO_KERNEL void ActivationForwardKernel(Activation kind, const Low* x, Low* out, int64_t count) {
  const int64_t i = ThreadInGrid();
  if (i < count) Store(out[i], Activate(kind, Load(x[i])));
}

template <class Low>
FOLIO_KERNEL void ActivationBackwardKernel(Activation kind, const Low* x, const Low* d_out,
                                           Low* d_x, int64_t count) {
  const int64_t i = ThreadInGrid();
  if (i < count) Store(d_x[i], Load(d_out[i]) * ActivationSlope(kind, Load(x[i])));
}

// x (N,2F), out (N,F).
template <class Low>
FOLIO_KERNEL void GatedForwardKernel(Activation kind, const Low* x, Low* out, int64_t N,
                                     int64_t F) {
  const int64_t i = ThreadInGrid(), at = i / F * 2 * F + i % F;
  if (i < N * F) Store(out[i], Activate(kind, Load(x[at])) * Load(x[at + F]));
}

template <class Low>
FOLIO_KERNEL void GatedBackwardKernel(Activation kind, const Low* x, const Low* d_out, Low* d_x,
                                      int64_t N, int64_t F) {
  const int64_t i = ThreadInGrid(), at = i / F * 2 * F + i % F;
  if (i >= N * F) return;
  const float gate = Load(x[at]), up = Load(x[at + F]), d = Load(d_out[i]);
  Store(d_x[at], d * up * ActivationSlope(kind, gate));
  Store(d_x[at + F], d * Activate(kind, gate));
}

// All (N,C); residual may be null. ResidualBackward is one without a residual.
template <class In, class Out>
struct ResidualArgs {
  const float* residual;
  const In* x;
  Out* out;
  int64_t N, C;
  DropoutArgs dropout;
};

template <class In, class Out>
FOLIO_KERNEL void ResidualKernel(ResidualArgs<In, Out> a) {
  const int64_t i = ThreadInGrid();
  if (i >= a.N * a.C) return;
  const float kept = a.dropout(Load(a.x[i]), i / a.C, i % a.C);
  Store(a.out[i], a.residual != nullptr ? a.residual[i] + kept : kept);
}

template <class Low>
FOLIO_KERNEL void ScaleKernel(Low* x, int64_t count, float factor) {
  const int64_t i = ThreadInGrid();
  if (i < count) Store(x[i], Load(x[i]) * factor);
}

template <class Low>
FOLIO_KERNEL void LogitCapKernel(Low* x, int64_t count, float cap) {
  const int64_t i = ThreadInGrid();
  if (i < count) Store(x[i], cap * tanhf(Load(x[i]) / cap));
}

FOLIO_KERNEL void CopyColumnsKernel(RowsOf<const float> x, RowsOf<float> out, int64_t N, int64_t C,
                                    bool accumulate) {
  const int64_t i = ThreadInGrid();
  if (i >= N * C) return;
  const float from = x.Row(i / C)[i % C];
  float& to = out.Row(i / C)[i % C];
  to = accumulate ? to + from : from;
}

FOLIO_KERNEL void FillKernel(float* out, int64_t count, float value) {
  const int64_t i = ThreadInGrid();
  if (i < count) out[i] = value;
}

}  // namespace folio::device
