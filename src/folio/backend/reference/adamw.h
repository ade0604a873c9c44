#pragma once

#include <cmath>
#include <cstdint>

#include "folio/backend/ops.h"
#include "folio/backend/reference/number.h"

namespace folio::reference {

// See AdamWUpdate in ops.h. Scalars come from `op`, whose tensors are not looked at.
template <class Number>
void AdamW(const AdamWUpdate& op, Number* param, const Number* grad, Number* m, Number* v,
           int64_t count) {
  using std::sqrt;
  using W = Wide<Number>;
  const double step = static_cast<double>(op.step);
  const double m_correction = 1 - std::pow(op.beta1, step);
  const double v_correction = 1 - std::pow(op.beta2, step);
  for (int64_t i = 0; i < count; ++i) {
    const W g = W(grad[i]) * op.grad_scale;
    const W new_m = op.beta1 * W(m[i]) + (1 - op.beta1) * g;
    const W new_v = op.beta2 * W(v[i]) + (1 - op.beta2) * g * g;
    const W decayed = W(param[i]) * (1 - op.lr * op.weight_decay);
    const W direction = (new_m / m_correction) / (sqrt(new_v / v_correction) + op.eps);
    param[i] = Number(decayed - op.lr * direction);
    m[i] = Number(new_m);
    v[i] = Number(new_v);
  }
}

}  // namespace folio::reference
