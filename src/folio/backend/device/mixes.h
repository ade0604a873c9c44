#pragma once

// Sums of arrays with factors that are parameters, and with gates: Mix and GatedAdd in ops.h.

#include "folio/backend/device/elementwise.h"

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

// Sums with a gate for each of G groups of D columns.
template <class Low>
struct GatedAddArgs {
  const Low* x;                      // (N,X), of which the first J columns decide on the gates
  const float *weight, *y, *factor;  // (G,J), (N,G*D), (1) or null
  int64_t N, X, G, J, D;
  float scale;

  FOLIO_DEVICE float Factor() const { return factor != nullptr ? scale * *factor : scale; }
  // One term of the gate of group g of row n, before the logistic function.
  FOLIO_DEVICE float GateTerm(int64_t n, int64_t g, int64_t j) const {
    return Load(x[n * X + j]) * weight[g * J + j];
  }
  // Computed by a whole warp.
  FOLIO_DEVICE float WarpGate(int64_t n, int64_t g) const {
    float sum = 0;
    for (int64_t j = Lane(); j < J; j += kWarp) sum += GateTerm(n, g, j);
    return Logistic(WarpSum(sum));
  }
};

// A warp has a group of a row.
template <class Low, class Sum>
FOLIO_KERNEL void GatedAddForwardKernel(GatedAddArgs<Low> a, RowsOf<Sum> out) {
  const int64_t n = WarpInGrid() / a.G, g = WarpInGrid() % a.G;
  if (n >= a.N) return;
  const float factor = a.Factor() * a.WarpGate(n, g);
  const float* y = a.y + n * a.G * a.D;
  for (int64_t c = g * a.D + Lane(); c < (g + 1) * a.D; c += kWarp) {
    Sum& to = out.Row(n)[c];
    Store(to, Load(to) + factor * y[c]);
  }
}

// d_y, which may be y, and d_x += its gradient, which may be d_out. A warp has a row; shared
// memory: G numbers for each warp of a block.
template <class Low, class Sum, class Input>
FOLIO_KERNEL void GatedAddBackwardKernel(GatedAddArgs<Low> a, RowsOf<const Sum> d_out, float* d_y,
                                         Input* d_x) {
  FOLIO_DYNAMIC_SHARED(float, shared);
  float* slopes = shared + ThreadInBlock() / kWarp * a.G;
  const int64_t n = WarpInGrid();
  if (n >= a.N) return;
  const Sum* from = d_out.Row(n);
  for (int64_t g = 0; g < a.G; ++g) {
    const float gate = a.WarpGate(n, g);
    float through = 0;
    for (int64_t c = g * a.D + Lane(); c < (g + 1) * a.D; c += kWarp) {
      const int64_t i = n * a.G * a.D + c;
      through += Load(from[c]) * a.y[i];
      d_y[i] = a.Factor() * gate * Load(from[c]);
    }
    through = WarpSum(through);
    if (Lane() == 0) slopes[g] = a.Factor() * through * gate * (1 - gate);
  }
  WarpBarrier();
  for (int64_t j = Lane(); j < a.J; j += kWarp) {
    float sum = 0;
    for (int64_t g = 0; g < a.G; ++g) sum += slopes[g] * a.weight[g * a.J + j];
    Input& to = d_x[n * a.X + j];
    Store(to, Load(to) + sum);
  }
}

// The parts of a gradient of weight or factor, each computed by a single thread.
template <class Low, class Sum>
struct GatedAddGradients {
  GatedAddArgs<Low> a;
  RowsOf<const Sum> d_out;

  FOLIO_DEVICE float Gate(int64_t n, int64_t g) const {
    float sum = 0;
    for (int64_t j = 0; j < a.J; ++j) sum += a.GateTerm(n, g, j);
    return Logistic(sum);
  }
  // The sum of d_out y over group g of row n.
  FOLIO_DEVICE float Through(int64_t n, int64_t g) const {
    float sum = 0;
    for (int64_t c = g * a.D; c < (g + 1) * a.D; ++c) {
      sum += Load(d_out.Row(n)[c]) * a.y[n * a.G * a.D + c];
    }
    return sum;
  }
};

template <class Low, class Sum>
struct GateWeightTerms {
  GatedAddGradients<Low, Sum> d;

  FOLIO_DEVICE float operator()(int64_t n, int64_t column) const {
    const int64_t g = column / d.a.J, j = column % d.a.J;
    const float gate = d.Gate(n, g);
    return d.a.Factor() * d.Through(n, g) * gate * (1 - gate) * Load(d.a.x[n * d.a.X + j]);
  }
};

template <class Low, class Sum>
struct GateFactorTerms {
  GatedAddGradients<Low, Sum> d;

  FOLIO_DEVICE double operator()(int64_t i) const {
    const int64_t n = i / d.a.G, g = i % d.a.G;
    return static_cast<double>(d.a.scale * d.Gate(n, g) * d.Through(n, g));
  }
};

}  // namespace folio::device
