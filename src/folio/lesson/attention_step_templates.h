#pragma once

// The steps of attention on plain arrays of a number type, as it is defined in backend/reference/.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "folio/backend/reference/operations.h"

namespace folio::steps {

using reference::HeadSizes;

// The three products of attention, between queries' rows (B,T,H,D), keys' rows (B,S,G,D) and what
// they have in common, (B,H,T,S): scores and their gradients, contexts and theirs.

// out[b,h,t,s] = scale * x[b,t,h] . y[b,s,KeyHead(h)].
template <class Number>
void Products(const HeadSizes& a, const Number* x, const Number* y, double scale, Number* out) {
  for (int64_t row = 0; row < a.B * a.H * a.T; ++row) {
    const int64_t b = row / (a.H * a.T), h = row / a.T % a.H, t = row % a.T;
    for (int64_t s = 0; s < a.S; ++s) {
      const Number* y_row = y + ((b * a.S + s) * a.key_heads() + a.KeyHead(h)) * a.D;
      out[row * a.S + s] =
          Number(reference::Dot(x + ((b * a.T + t) * a.H + h) * a.D, y_row, a.D) * scale);
    }
  }
}

// out[b,t,h] = scale * sum over s of weights[b,h,t,s] * y[b,s,KeyHead(h)].
template <class Number>
void SumOverKeys(const HeadSizes& a, const Number* weights, const Number* y, double scale,
                 Number* out) {
  for (int64_t i = 0; i < a.B * a.T * a.H * a.D; ++i) {
    const int64_t b = i / (a.T * a.H * a.D), t = i / (a.H * a.D) % a.T, h = i / a.D % a.H;
    const Number* row = weights + ((b * a.H + h) * a.T + t) * a.S;
    double sum = 0;
    for (int64_t s = 0; s < a.S; ++s) {
      sum += double(row[s]) *
             double(y[((b * a.S + s) * a.key_heads() + a.KeyHead(h)) * a.D + i % a.D]);
    }
    out[i] = Number(sum * scale);
  }
}

// out[b,s,g] = scale * sum over t, and over the heads h that share g, of weights[b,h,t,s] *
// x[b,t,h].
template <class Number>
void SumOverQueries(const HeadSizes& a, const Number* weights, const Number* x, double scale,
                    Number* out) {
  const int64_t G = a.key_heads();
  for (int64_t i = 0; i < a.B * a.S * G * a.D; ++i) {
    const int64_t b = i / (a.S * G * a.D), s = i / (G * a.D) % a.S, g = i / a.D % G;
    double sum = 0;
    for (int64_t h = a.FirstHead(g); h < a.FirstHead(g + 1); ++h) {
      for (int64_t t = 0; t < a.T; ++t) {
        sum += double(weights[((b * a.H + h) * a.T + t) * a.S + s]) *
               double(x[((b * a.T + t) * a.H + h) * a.D + i % a.D]);
      }
    }
    out[i] = Number(sum * scale);
  }
}

// x and out (B,H,T,S), T*S of them a `matrix`; mask (mask_B,mask_H,T,S), where mask_B is B or 1 and
// mask_H is H or 1. out = x where mask is not 0, else fill; out may be x.
template <class Number>
void Mask(const Number* x, const uint8_t* mask, Number* out, int64_t B, int64_t H, int64_t mask_B,
          int64_t mask_H, int64_t matrix, double fill) {
  for (int64_t head = 0; head < B * H; ++head) {
    const int64_t b = head / H % mask_B, h = head % H % mask_H;
    const uint8_t* kept = mask + (b * mask_H + h) * matrix;
    for (int64_t i = 0; i < matrix; ++i) {
      out[head * matrix + i] = kept[i] != 0 ? x[head * matrix + i] : Number(fill);
    }
  }
}

// Rows of (N,S); out may be x. With a row's maximum m taken off, exp(x - m) / sum of exp(x - m) is
// the same function, and no exp exceeds 1. A row of -infinity gives zeros.
template <class Number>
void Softmax(const Number* x, Number* out, int64_t N, int64_t S) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (int64_t row = 0; row < N; ++row, x += S, out += S) {
    double max = -kInfinity;
    for (int64_t s = 0; s < S; ++s) max = std::max(max, double(x[s]));
    const auto weight = [&](Number score) {
      return score == -kInfinity ? 0 : std::exp(double(score) - max);
    };
    double total = 0;
    for (int64_t s = 0; s < S; ++s) total += weight(x[s]);
    for (int64_t s = 0; s < S; ++s) {
      out[s] = total == 0 ? Number(0) : Number(weight(x[s]) / total);
    }
  }
}

// The formula as it stands. exp is Number's own, so that it overflows where Number does.
template <class Number>
void NaiveSoftmax(const Number* x, Number* out, int64_t N, int64_t S) {
  for (int64_t row = 0; row < N; ++row, x += S, out += S) {
    double total = 0;
    for (int64_t s = 0; s < S; ++s) {
      out[s] = std::exp(x[s]);
      total += out[s];
    }
    for (int64_t s = 0; s < S; ++s) out[s] = total == 0 ? Number(0) : Number(out[s] / total);
  }
}

// d_x = out * (d_out - sum over the row of out * d_out); d_x may be d_out.
template <class Number>
void SoftmaxBackward(const Number* out, const Number* d_out, Number* d_x, int64_t N, int64_t S) {
  for (int64_t row = 0; row < N; ++row, out += S, d_out += S, d_x += S) {
    double total = 0;
    for (int64_t s = 0; s < S; ++s) total += double(out[s]) * double(d_out[s]);
    for (int64_t s = 0; s < S; ++s) d_x[s] = Number(out[s] * (d_out[s] - total));
  }
}

// out = x / sum of x, zeros where the sum is 0; out may be x. sums (N).
template <class Number>
void Normalize(const Number* x, Number* out, Number* sums, int64_t N, int64_t S) {
  for (int64_t row = 0; row < N; ++row, x += S, out += S) {
    double total = 0;
    for (int64_t s = 0; s < S; ++s) total += x[s];
    for (int64_t s = 0; s < S; ++s) out[s] = total == 0 ? Number(0) : Number(x[s] / total);
    sums[row] = Number(total);
  }
}

// d_x = (d_out - sum over the row of out * d_out) / sums, zeros where the sum is 0; d_x may be
// d_out.
template <class Number>
void NormalizeBackward(const Number* out, const Number* sums, const Number* d_out, Number* d_x,
                       int64_t N, int64_t S) {
  for (int64_t row = 0; row < N; ++row, out += S, d_out += S, d_x += S) {
    double total = 0;
    for (int64_t s = 0; s < S; ++s) total += double(out[s]) * double(d_out[s]);
    for (int64_t s = 0; s < S; ++s) {
      d_x[s] = sums[row] == 0 ? Number(0) : Number((d_out[s] - total) / sums[row]);
    }
  }
}

}  // namespace folio::steps
