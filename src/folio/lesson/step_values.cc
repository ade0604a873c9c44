#include "folio/lesson/step_values.h"

#include <algorithm>
#include <utility>

#include "folio/base/check.h"

namespace folio {
StepTensor::StepTensor(const Shape& shape, Dtype dtype)
    : memory_(static_cast<size_t>(shape.count())), tensor_(memory_.data(), dtype, shape) {}

StepTensor::StepTensor(const Shape& shape, std::span<const float> values) : StepTensor(shape) {
  FOLIO_CHECK(std::ssize(values) == shape.count(), "a value for each element");
  std::ranges::copy(values, data());
}

Matrix MatrixValues(const Tensor& x, MatrixLabels labels) {
  const int64_t columns = x.shape().back();
  return MakeMatrix({columns == 0 ? 0 : x.count() / columns, columns}, Doubles(x),
                    std::move(labels));
}

std::vector<double> Doubles(const Tensor& x) {
  const auto count = static_cast<size_t>(x.count());
  if (x.dtype() == Dtype::kF64) {
    const double* data = x.data<double>();
    return {data, data + count};
  }
  const float* data = x.data<float>();
  return {data, data + count};
}

}  // namespace folio
