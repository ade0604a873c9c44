#pragma once

// LayerNorm and RMSNorm of rows and of heads, as ops.h says. A warp has a row, or a group of its
// channels; sums are in float32.

#include "folio/backend/device/numbers.h"

namespace folio::device {

// The factor of a normalised element; weight may be null.
struct NormFactor {
  const float* weight;
  float offset, scale;

  FOLIO_DEVICE float operator()(int64_t c) const {
    return weight != nullptr ? (weight[c] + offset) * scale : scale;
  }
};

// A norm of N rows: LayerNorm or, if mean is null, RMSNorm.
template <class Low>
struct NormForwardArgs {
  const float* x;
  NormFactor factor;
  const float* bias;  // may be null
  Low* out;
  float *mean, *rstd;
  int64_t N, C;
  float eps;
};

template <class Low>
FOLIO_KERNEL void NormForwardKernel(NormForwardArgs<Low> a) {
  const int64_t n = WarpInGrid();
  if (n >= a.N) return;
  const float* x = a.x + n * a.C;
  float mean = 0, squares = 0;
  if (a.mean != nullptr) {
    for (int64_t c = Lane(); c < a.C; c += kWarp) mean += x[c];
    mean = WarpSum(mean) / static_cast<float>(a.C);
  }
  for (int64_t c = Lane(); c < a.C; c += kWarp) squares += (x[c] - mean) * (x[c] - mean);
  const float rstd = 1.0f / sqrtf(WarpSum(squares) / static_cast<float>(a.C) + a.eps);
  for (int64_t c = Lane(); c < a.C; c += kWarp) {
    const float y = (x[c] - mean) * rstd * a.factor(c);
    Store(a.out[n * a.C + c], a.bias != nullptr ? y + a.bias[c] : y);
  }
  if (Lane() != 0) return;
  if (a.mean != nullptr) a.mean[n] = mean;
  a.rstd[n] = rstd;
}

template <class Low>
struct NormBackwardArgs {
  const float* x;
  NormFactor factor;
  const float *mean, *rstd;  // as in the forward
  const Low* d_out;
  float* d_x;
  BF16* d_x_low;  // null if nobody wants it
  int64_t N, C;
  bool accumulate;

  FOLIO_DEVICE float Normed(int64_t n, int64_t c) const {
    return (x[n * C + c] - (mean != nullptr ? mean[n] : 0.0f)) * rstd[n];
  }
  FOLIO_DEVICE float Gradient(int64_t n, int64_t c) const { return Load(d_out[n * C + c]); }
};

// d_x alone. It may be d_out: each lane writes elements that it alone has read.
template <class Low>
FOLIO_KERNEL void NormBackwardKernel(NormBackwardArgs<Low> a) {
  const int64_t n = WarpInGrid();
  if (n >= a.N) return;
  float g_sum = 0, gy_sum = 0;
  for (int64_t c = Lane(); c < a.C; c += kWarp) {
    const float g = a.Gradient(n, c) * a.factor(c);
    g_sum += g;
    gy_sum += g * a.Normed(n, c);
  }
  const float g_mean = a.mean != nullptr ? WarpSum(g_sum) / static_cast<float>(a.C) : 0.0f;
  const float gy_mean = WarpSum(gy_sum) / static_cast<float>(a.C);
  for (int64_t c = Lane(); c < a.C; c += kWarp) {
    const int64_t i = n * a.C + c;
    const float g = a.Gradient(n, c) * a.factor(c);
    const float d = a.rstd[n] * (g - g_mean - a.Normed(n, c) * gy_mean);
    const float d_x = a.accumulate ? a.d_x[i] + d : d;
    a.d_x[i] = d_x;
    if (a.d_x_low != nullptr) Store(a.d_x_low[i], d_x);
  }
}

// Terms of the gradients of a norm's weight and bias.
template <class Low>
struct NormWeightTerms {
  NormBackwardArgs<Low> a;

  FOLIO_DEVICE float operator()(int64_t n, int64_t c) const {
    return a.Gradient(n, c) * a.Normed(n, c);
  }
};
template <class Low>
struct NormBiasTerms {
  NormBackwardArgs<Low> a;

  FOLIO_DEVICE float operator()(int64_t n, int64_t c) const { return a.Gradient(n, c); }
};

// Rows of queries or keys, normalised in groups of `group` channels, or as parts of rows of `whole`
// channels if `sums` is not null.
template <class Low>
struct HeadNormArgs {
  RowsOf<Low> x;  // or d_x
  NormFactor factor;
  Low* raw;     // null if nobody wants it
  float* rstd;  // likewise
  const float* sums;
  int64_t N, C, group, whole;
  float eps;
};

// A warp has a group of a row.
template <class Low>
FOLIO_KERNEL void HeadNormForwardKernel(HeadNormArgs<Low> a) {
  const int64_t groups = a.C / a.group, i = WarpInGrid();
  const int64_t n = i / groups, first = i % groups * a.group;
  if (n >= a.N) return;
  Low* x = a.x.Row(n) + first;
  float squares = 0;
  for (int64_t c = Lane(); a.sums == nullptr && c < a.group; c += kWarp) {
    squares += Load(x[c]) * Load(x[c]);
  }
  squares = WarpSum(squares);
  const float mean = a.sums != nullptr ? a.sums[n] / static_cast<float>(a.whole)
                                       : squares / static_cast<float>(a.group);
  const float rstd = 1.0f / sqrtf(mean + a.eps);
  for (int64_t c = Lane(); c < a.group; c += kWarp) {
    if (a.raw != nullptr) a.raw[n * a.C + first + c] = x[c];
    Store(x[c], Load(x[c]) * rstd * a.factor(c));
  }
  if (Lane() == 0 && a.rstd != nullptr) a.rstd[i] = rstd;
}

template <class Low>
FOLIO_KERNEL void HeadNormBackwardKernel(HeadNormArgs<Low> a) {
  const int64_t groups = a.C / a.group, i = WarpInGrid();
  const int64_t n = i / groups, first = i % groups * a.group;
  if (n >= a.N) return;
  Low* d_x = a.x.Row(n) + first;
  const Low* raw = a.raw + n * a.C + first;
  float sum = 0;
  for (int64_t c = Lane(); a.sums == nullptr && c < a.group; c += kWarp) {
    sum += Load(d_x[c]) * a.factor(c) * Load(raw[c]);
  }
  sum = WarpSum(sum);
  const float mean = a.sums != nullptr ? a.sums[n] / static_cast<float>(a.whole)
                                       : sum / static_cast<float>(a.group);
  const float rstd = a.rstd[i];
  for (int64_t c = Lane(); c < a.group; c += kWarp) {
    const float y = Load(raw[c]) * rstd;
    Store(d_x[c], rstd * (Load(d_x[c]) * a.factor(c) - y * rstd * mean));
  }
}

// Terms of the gradient of the weight, for the i-th group of all rows.
template <class Low>
struct HeadNormWeightTerms {
  HeadNormArgs<Low> a;

  FOLIO_DEVICE float operator()(int64_t i, int64_t c) const {
    const int64_t groups = a.C / a.group, n = i / groups, column = i % groups * a.group + c;
    const float y = Load(a.raw[n * a.C + column]) * a.rstd[i];
    return Load(a.x.Row(n)[column]) * y * a.factor.scale;
  }
};

// sums[n] = the sum of x^2 or, with raw, of x factor raw.
template <class Low>
FOLIO_KERNEL void HeadNormSumsKernel(HeadNormArgs<Low> a, float* sums) {
  const int64_t n = WarpInGrid();
  if (n >= a.N) return;
  const Low* x = a.x.Row(n);
  float sum = 0;
  for (int64_t c = Lane(); c < a.C; c += kWarp) {
    const float value = Load(x[c]);
    sum += a.raw != nullptr ? value * a.factor(c) * Load(a.raw[n * a.C + c]) : value * value;
  }
  sum = WarpSum(sum);
  if (Lane() == 0) sums[n] = sum;
}

}  // namespace folio::device
