#pragma once

// AdamW, as ops.h says: a thread has a parameter.

#include "folio/backend/device/numbers.h"

namespace folio::device {

struct AdamWArgs {
  float* param;
  const float* grad;
  float *m, *v;
  BF16* low;  // null if nobody wants it
  int64_t count;
  float lr, beta1, beta2, eps;
  float rest1, rest2;  // 1 - beta1, 1 - beta2
  float decay;         // 1 - lr * weight_decay
  float m_correction, v_correction;
  float grad_scale;
};

FOLIO_KERNEL void AdamWKernel(AdamWArgs a) {
  const int64_t i = ThreadInGrid();
  if (i >= a.count) return;
  const float g = a.grad[i] * a.grad_scale;
  const float m = a.beta1 * a.m[i] + a.rest1 * g;
  const float v = a.beta2 * a.v[i] + a.rest2 * g * g;
  const float direction = (m / a.m_correction) / (sqrtf(v / a.v_correction) + a.eps);
  const float param = a.param[i] * a.decay - a.lr * direction;
  a.m[i] = m;
  a.v[i] = v;
  a.param[i] = param;
  if (a.low != nullptr) Store(a.low[i], param);
}

}  // namespace folio::device
