#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "folio/lesson/walkthrough.h"
#include "folio/tensor/tensor.h"

namespace folio {

// Memory with a shape, zero or given: operands of a walk's operations.
class StepTensor {
 public:
  explicit StepTensor(const Shape& shape, Dtype dtype = Dtype::kF32);
  // Float32. REQUIRES: as many values as the shape has.
  StepTensor(const Shape& shape, std::span<const float> values);
  StepTensor(const Shape& shape, std::initializer_list<float> values)
      : StepTensor(shape, std::span(values.begin(), values.size())) {}
  StepTensor(StepTensor&&) = default;  // what tensor() gave stays valid
  StepTensor& operator=(StepTensor&&) = default;

  const Tensor& tensor() const { return tensor_; }
  float* data() { return tensor_.data<float>(); }

 private:
  std::vector<double> memory_;
  Tensor tensor_;
};

struct StepLabels {
  std::vector<std::string> rows = {}, columns = {};  // none, or one for each
  std::string row_axis = {}, column_axis = {};
};

// A row of numbers.
StepValues RowValues(std::vector<double> values, StepLabels labels = {});
// A float32 or float64 tensor as a matrix: its last dimension across, all others down.
StepValues MatrixValues(const Tensor& x, StepLabels labels = {});
// `rows` stacked, all equally long: the same thing done in several ways.
StepValues StackedValues(const std::vector<std::vector<double>>& rows, StepLabels labels = {});

// Returns the values without colours, for numbers that are no sizes, such as ids.
StepValues Plain(StepValues values, int digits = 4);
// Returns the values with exponents, for numbers that are far apart.
StepValues Scientific(StepValues values);

// Makes values that may not be seen NaN. REQUIRES: as many marks as values, 0 for "masked".
void MarkMasked(StepValues& values, std::span<const uint8_t> mask);

// A tensor's numbers as double.
std::vector<double> Doubles(const Tensor& x);
// "0", "1", ...
std::vector<std::string> Numbered(int64_t count, const std::string& prefix = "");

}  // namespace folio
