#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <vector>

#include "folio/backend/reference/number.h"

namespace folio::reference {

// J. L. Ba, J. R. Kiros, G. E. Hinton, arXiv:1607.06450. x and out (N,C), mean and rstd (N); bias
// may be null.
template <class Number>
void LayerNormForward(const Number* x, const Number* weight, const Number* bias, Number* out,
                      Number* mean, Number* rstd, int64_t N, int64_t C, double eps) {
  using std::sqrt;
  using W = Wide<Number>;
  for (int64_t n = 0; n < N; ++n, x += C, out += C) {
    W sum = 0, squares = 0;
    for (int64_t c = 0; c < C; ++c) sum += W(x[c]);
    const W mu = sum / static_cast<double>(C);
    for (int64_t c = 0; c < C; ++c) squares += (W(x[c]) - mu) * (W(x[c]) - mu);
    const W r = 1.0 / sqrt(squares / static_cast<double>(C) + eps);
    for (int64_t c = 0; c < C; ++c) {
      const W y = (W(x[c]) - mu) * r * W(weight[c]);
      out[c] = Number(bias ? y + W(bias[c]) : y);
    }
    mean[n] = Number(mu);
    rstd[n] = Number(r);
  }
}

// With y = (x - mean) * rstd and g = d_out * weight, row by row:
//   d_x = rstd * (g - average(g) - y * average(g * y))
// d_weight += sum over rows of d_out * y, d_bias += sum over rows of d_out; both may be null.
template <class Number>
void LayerNormBackward(const Number* x, const Number* weight, const Number* mean,
                       const Number* rstd, const Number* d_out, Number* d_x, Number* d_weight,
                       Number* d_bias, int64_t N, int64_t C, bool accumulate_d_x) {
  using W = Wide<Number>;
  std::vector<W> weight_sum(static_cast<size_t>(C)), bias_sum(static_cast<size_t>(C));
  for (int64_t n = 0; n < N; ++n) {
    const W mu = mean[n], r = rstd[n];
    W g_sum = 0, gy_sum = 0;
    for (int64_t c = 0; c < C; ++c) {
      const W d = d_out[n * C + c], y = (W(x[n * C + c]) - mu) * r;
      g_sum += d * W(weight[c]);
      gy_sum += d * W(weight[c]) * y;
      weight_sum[static_cast<size_t>(c)] += d * y;
      bias_sum[static_cast<size_t>(c)] += d;
    }
    g_sum /= static_cast<double>(C);
    gy_sum /= static_cast<double>(C);
    for (int64_t c = 0; c < C; ++c) {
      const W y = (W(x[n * C + c]) - mu) * r;
      const W d = r * (W(d_out[n * C + c]) * W(weight[c]) - g_sum - y * gy_sum);
      d_x[n * C + c] = Number(accumulate_d_x ? W(d_x[n * C + c]) + d : d);
    }
  }
  for (int64_t c = 0; c < C; ++c) {
    if (d_weight) d_weight[c] = Number(W(d_weight[c]) + weight_sum[static_cast<size_t>(c)]);
    if (d_bias) d_bias[c] = Number(W(d_bias[c]) + bias_sum[static_cast<size_t>(c)]);
  }
}

}  // namespace folio::reference
