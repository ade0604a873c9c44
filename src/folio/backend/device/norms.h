#pragma once

// LayerNorm and RMSNorm of rows and of heads, as ops.h says. A warp has a row, or a group of its
// channels; sums are in float32.

#include "folio/backend/device/numbers.h"

namespace folio::device {

template <class Low>
struct LayerNormForwardArgs {
  const float *x, *weight, *bias;  // bias may be null
  Low* out;
  float *mean, *rstd;
  int64_t N, C;
  float eps;
};

template <class Low>
FOLIO_KERNEL void LayerNormForwardKernel(LayerNormForwardArgs<Low> a) {
  const int64_t n = WarpInGrid();
  if (n >= a.N) return;
  const float* x = a.x + n * a.C;
  float sum = 0, squares = 0;
  for (int64_t c = Lane(); c < a.C; c += kWarp) sum += x[c];
  const float mean = WarpSum(sum) / static_cast<float>(a.C);
  for (int64_t c = Lane(); c < a.C; c += kWarp) squares += (x[c] - mean) * (x[c] - mean);
  const float rstd = 1.0f / sqrtf(WarpSum(squares) / static_cast<float>(a.C) + a.eps);
  for (int64_t c = Lane(); c < a.C; c += kWarp) {
    const float y = (x[c] - mean) * rstd * a.weight[c];
    Store(a.out[n * a.C + c], a.bias != nullptr ? y + a.bias[c] : y);
  }
  if (Lane() != 0) return;
  a.mean[n] = mean;
  a.rstd[n] = rstd;
}

template <class Low>
struct LayerNormBackwardArgs {
  const float *x, *weight, *mean, *rstd;
  const Low* d_out;
  float* d_x;
  BF16* d_x_low;  // null if nobody wants it
  int64_t N, C;
  bool accumulate;
};

// d_x alone. It may be d_out: each lane writes elements that it alone has read.
template <class Low>
FOLIO_KERNEL void LayerNormBackwardKernel(LayerNormBackwardArgs<Low> a) {
  const int64_t n = WarpInGrid();
  if (n >= a.N) return;
  const float mean = a.mean[n], rstd = a.rstd[n];
  float g_sum = 0, gy_sum = 0;
  for (int64_t c = Lane(); c < a.C; c += kWarp) {
    const float g = Load(a.d_out[n * a.C + c]) * a.weight[c];
    g_sum += g;
    gy_sum += g * ((a.x[n * a.C + c] - mean) * rstd);
  }
  const float g_mean = WarpSum(g_sum) / static_cast<float>(a.C);
  const float gy_mean = WarpSum(gy_sum) / static_cast<float>(a.C);
  for (int64_t i = n * a.C + Lane(); i < (n + 1) * a.C; i += kWarp) {
    const float y = (a.x[i] - mean) * rstd;
    const float d = rstd * (Load(a.d_out[i]) * a.weight[i - n * a.C] - g_mean - y * gy_mean);
    const float d_x = a.accumulate ? a.d_x[i] + d : d;
    a.d_x[i] = d_x;
    if (a.d_x_low != nullptr) Store(a.d_x_low[i], d_x);
  }
}

// Terms of the gradients of LayerNorm's weight and bias.
template <class Low>
struct LayerNormWeightTerms {
  const float *x, *mean, *rstd;
  const Low* d_out;
  int64_t C;

  FOLIO_DEVICE float operator()(int64_t n, int64_t c) const {
    return Load(d_out[n * C + c]) * ((x[n * C + c] - mean[n]) * rstd[n]);
  }
};

template <class Low>
struct RowTerms {
  const Low* x;
  int64_t C;

  FOLIO_DEVICE float operator()(int64_t n, int64_t c) const { return Load(x[n * C + c]); }
};

// The factor of an RMSNorm's normalised row; weight may be null.
struct NormFactor {
  const float* weight;
  float offset, scale;

  FOLIO_DEVICE float operator()(int64_t c) const {
    return weight != nullptr ? (weight[c] + offset) * scale : scale;
  }
};

template <class Low>
struct RmsNormForwardArgs {
  const float* x;
  NormFactor factor;
  Low* out;
  float* rstd;
  int64_t N, C;
  float eps;
};

template <class Low>
FOLIO_KERNEL void RmsNormForwardKernel(RmsNormForwardArgs<Low> a) {
  const int64_t n = WarpInGrid();
  if (n >= a.N) return;
  const float* x = a.x + n * a.C;
  float squares = 0;
  for (int64_t c = Lane(); c < a.C; c += kWarp) squares += x[c] * x[c];
  const float rstd = 1.0f / sqrtf(WarpSum(squares) / static_cast<float>(a.C) + a.eps);
  for (int64_t c = Lane(); c < a.C; c += kWarp) {
    Store(a.out[n * a.C + c], x[c] * rstd * a.factor(c));
  }
  if (Lane() == 0) a.rstd[n] = rstd;
}

template <class Low>
struct RmsNormBackwardArgs {
  const float* x;
  NormFactor factor;
  const float* rstd;
  const Low* d_out;
  float* d_x;
  BF16* d_x_low;  // null if nobody wants it
  int64_t N, C;
  bool accumulate;
};

// d_x alone, which may be d_out.
template <class Low>
FOLIO_KERNEL void RmsNormBackwardKernel(RmsNormBackwardArgs<Low> a) {
  const int64_t n = WarpInGrid();
  if (n >= a.N) return;
  const float rstd = a.rstd[n];
  float sum = 0;
  for (int64_t c = Lane(); c < a.C; c += kWarp) {
    sum += Load(a.d_out[n * a.C + c]) * a.factor(c) * a.x[n * a.C + c];
  }
  const float mean = WarpSum(sum) / static_cast<float>(a.C);
  for (int64_t c = Lane(); c < a.C; c += kWarp) {
    const int64_t i = n * a.C + c;
    const float y = a.x[i] * rstd;
    const float d = rstd * (Load(a.d_out[i]) * a.factor(c) - y * rstd * mean);
    const float d_x = a.accumulate ? a.d_x[i] + d : d;
    a.d_x[i] = d_x;
    if (a.d_x_low != nullptr) Store(a.d_x_low[i], d_x);
  }
}

template <class Low>
struct RmsNormWeightTerms {
  const float *x, *rstd;
  const Low* d_out;
  int64_t C;

  FOLIO_DEVICE float operator()(int64_t n, int64_t c) const {
    return Load(d_out[n * C + c]) * (x[n * C + c] * rstd[n]);
  }
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
