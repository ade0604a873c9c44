#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "folio/report/matrix.h"
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

// A float32 or float64 tensor as a matrix: its last dimension across, all others down.
Matrix MatrixValues(const Tensor& x, MatrixLabels labels = {});
// A tensor's numbers as double.
std::vector<double> Doubles(const Tensor& x);

}  // namespace folio
