#pragma once

#include <cstdint>
#include <span>

#include "folio/backend/backend.h"
#include "folio/lesson/step_values.h"

namespace folio {

// Operations on float32 rows that walks hold: a backend's, and those that only lessons need.
// Operands are (N,C) unless said.

// a + b.
StepTensor Sum(Backend& backend, const Tensor& a, const Tensor& b);
// x + value.
StepTensor Shifted(Backend& backend, const Tensor& x, double value);
// x * factor, as scores are scaled.
StepTensor Scaled(const Tensor& x, double factor);
StepTensor Softmax(const Tensor& x);
StepTensor NaiveSoftmax(const Tensor& x);
// The sum of all elements of a row (1,C), none of them negative.
double Total(const Tensor& row);
// Its length: the root of the sum of its squares.
double Length(Backend& backend, const Tensor& row);

// LayerNorm of one row (1,C).
struct NormalizedRow {
  StepTensor out;
  double mean = 0, variance = 0, rstd = 0;
};
// An empty weight stands for ones. The variance is what rstd = 1 / sqrt(variance + eps) makes it.
NormalizedRow Normalized(Backend& backend, const Tensor& row, const Tensor& weight = {},
                         const Tensor& bias = {}, double eps = 1e-5);

// Throws a kUsage Error unless someone gave at least one number, and finite ones.
void RequireNumbers(std::span<const float> numbers);

// Row `row` of x (N,C), as (1,C).
inline Tensor RowAt(const Tensor& x, int64_t row) {
  return x.Slice(row, row + 1);
}

}  // namespace folio
