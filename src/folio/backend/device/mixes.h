#pragma once

// Sums of two arrays with factors that are parameters, as MixForward and MixBackward in ops.h.

#include "folio/backend/device/numbers.h"

namespace folio::device {

struct MixArgs {
  const float *x, *y, *x_factor, *y_factor;  // x_factor may be null
  float sign;
  int64_t count;

  FOLIO_DEVICE float OfX() const { return x_factor != nullptr ? *x_factor : 1.0f; }
  FOLIO_DEVICE float OfY() const { return sign * *y_factor; }
};

FOLIO_KERNEL void MixForwardKernel(MixArgs a, float* out) {
  const int64_t i = ThreadInGrid();
  if (i < a.count) out[i] = a.OfX() * a.x[i] + a.OfY() * a.y[i];
}

// d_x may be d_out.
FOLIO_KERNEL void MixBackwardKernel(MixArgs a, const float* d_out, float* d_x, float* d_y,
                                    bool accumulate_d_y) {
  const int64_t i = ThreadInGrid();
  if (i >= a.count) return;
  const float d = d_out[i], through_y = a.OfY() * d;
  d_x[i] = a.OfX() * d;
  d_y[i] = accumulate_d_y ? d_y[i] + through_y : through_y;
}

// Terms of the gradient of a factor.
struct Products {
  const float *x, *y;
  double scale;

  FOLIO_DEVICE double operator()(int64_t i) const {
    return static_cast<double>(x[i]) * static_cast<double>(y[i]) * scale;
  }
};

}  // namespace folio::device
