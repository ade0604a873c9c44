#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "folio/backend/reference/number.h"

namespace folio::reference {

// sums[o] = sum over i of x[i] weight[i,o], for one row x of I; weight is (I,O), or (O,I) if
// transposed.
template <class Number>
void RowProduct(const Number* x, const Number* weight, Wide<Number>* sums, int64_t I, int64_t O,
                bool transposed) {
  using W = Wide<Number>;
  std::fill(sums, sums + O, W(0));
  if (transposed) {
    for (int64_t o = 0; o < O; ++o) {
      for (int64_t i = 0; i < I; ++i) sums[o] += W(x[i]) * W(weight[o * I + i]);
    }
  } else {
    for (int64_t i = 0; i < I; ++i) {
      for (int64_t o = 0; o < O; ++o) sums[o] += W(x[i]) * W(weight[i * O + o]);
    }
  }
}

// out[r,c] += sum over n of a[n,r] b[n,c]; a is (N,R), b (N,C), out (R,C).
template <class Number>
void AddOuterProducts(const Number* a, const Number* b, Number* out, int64_t N, int64_t R,
                      int64_t C) {
  using W = Wide<Number>;
  std::vector<W> sums(static_cast<size_t>(C));
  for (int64_t r = 0; r < R; ++r) {
    std::fill(sums.begin(), sums.end(), W(0));
    for (int64_t n = 0; n < N; ++n) {
      const W factor = a[n * R + r];
      for (int64_t c = 0; c < C; ++c) sums[static_cast<size_t>(c)] += factor * W(b[n * C + c]);
    }
    for (int64_t c = 0; c < C; ++c) {
      out[r * C + c] = Number(W(out[r * C + c]) + sums[static_cast<size_t>(c)]);
    }
  }
}

// out = x weight + bias, added to what is there if accumulate: x (N,I), out (N,O), bias (O) or
// null.
template <class Number>
void LinearForward(const Number* x, const Number* weight, const Number* bias, Number* out,
                   int64_t N, int64_t I, int64_t O, bool transposed, bool accumulate = false) {
  using W = Wide<Number>;
  std::vector<W> sums(static_cast<size_t>(O));
  for (int64_t n = 0; n < N; ++n) {
    RowProduct(x + n * I, weight, sums.data(), I, O, transposed);
    for (int64_t o = 0; o < O; ++o) {
      const W sum = sums[static_cast<size_t>(o)] + (accumulate ? W(out[n * O + o]) : W(0));
      out[n * O + o] = Number(bias ? sum + W(bias[o]) : sum);
    }
  }
}

// d_x = d_out weight^T, d_weight = x^T d_out, d_bias += sum over rows of d_out; the first two are
// added to what is there where accumulate says so. d_x, d_weight and d_bias may be null, and x with
// d_weight.
template <class Number>
void LinearBackward(const Number* x, const Number* weight, const Number* d_out, Number* d_x,
                    Number* d_weight, Number* d_bias, int64_t N, int64_t I, int64_t O,
                    bool transposed, bool accumulate_d_x, bool accumulate_d_weight) {
  using W = Wide<Number>;
  std::vector<W> sums(static_cast<size_t>(I));
  for (int64_t n = 0; d_x && n < N; ++n) {
    RowProduct(d_out + n * O, weight, sums.data(), O, I, !transposed);
    for (int64_t i = 0; i < I; ++i) {
      const W sum = sums[static_cast<size_t>(i)];
      d_x[n * I + i] = Number(accumulate_d_x ? W(d_x[n * I + i]) + sum : sum);
    }
  }
  if (d_weight && !accumulate_d_weight) std::fill(d_weight, d_weight + I * O, Number(0));
  if (d_weight && transposed) {
    AddOuterProducts(d_out, x, d_weight, N, O, I);
  } else if (d_weight) {
    AddOuterProducts(x, d_out, d_weight, N, I, O);
  }
  for (int64_t o = 0; d_bias && o < O; ++o) {
    W sum = d_bias[o];
    for (int64_t n = 0; n < N; ++n) sum += W(d_out[n * O + o]);
    d_bias[o] = Number(sum);
  }
}

}  // namespace folio::reference
