#include "folio/lesson/step_values.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "folio/base/check.h"

namespace folio {
namespace {

StepValues Labelled(std::vector<int64_t> shape, std::vector<double> numbers, StepLabels labels) {
  StepValues values;
  values.shape = std::move(shape);
  values.values = std::move(numbers);
  values.row_labels = std::move(labels.rows);
  values.column_labels = std::move(labels.columns);
  values.row_axis = std::move(labels.row_axis);
  values.column_axis = std::move(labels.column_axis);
  const auto rows = static_cast<size_t>(values.rows());
  const auto columns = static_cast<size_t>(values.columns());
  FOLIO_CHECK(values.row_labels.empty() || values.row_labels.size() == rows,
              "a label for each row");
  FOLIO_CHECK(values.column_labels.empty() || values.column_labels.size() == columns,
              "a label for each column");
  return values;
}

}  // namespace

StepTensor::StepTensor(const Shape& shape, Dtype dtype)
    : memory_(static_cast<size_t>(shape.count())), tensor_(memory_.data(), dtype, shape) {}

StepTensor::StepTensor(const Shape& shape, std::span<const float> values) : StepTensor(shape) {
  FOLIO_CHECK(std::ssize(values) == shape.count(), "a value for each element");
  std::ranges::copy(values, data());
}

StepValues RowValues(std::vector<double> values, StepLabels labels) {
  const int64_t columns = std::ssize(values);
  return Labelled({columns}, std::move(values), std::move(labels));
}

StepValues MatrixValues(const Tensor& x, StepLabels labels) {
  const int64_t columns = x.shape().back();
  return Labelled({columns == 0 ? 0 : x.count() / columns, columns}, Doubles(x), std::move(labels));
}

StepValues StackedValues(const std::vector<std::vector<double>>& rows, StepLabels labels) {
  std::vector<double> all;
  for (const std::vector<double>& row : rows) {
    FOLIO_CHECK(row.size() == rows.front().size(), "rows of equal length");
    all.insert(all.end(), row.begin(), row.end());
  }
  const size_t columns = rows.empty() ? 0 : rows.front().size();
  return Labelled({static_cast<int64_t>(rows.size()), static_cast<int64_t>(columns)},
                  std::move(all), std::move(labels));
}

StepValues Plain(StepValues values, int digits) {
  values.heat = false;
  values.digits = digits;
  return values;
}

StepValues Scientific(StepValues values) {
  values.scientific = true;
  return values;
}

void MarkMasked(StepValues& values, std::span<const uint8_t> mask) {
  FOLIO_CHECK(mask.size() == values.values.size(), "a mark for each value");
  for (size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] == 0) values.values[i] = std::numeric_limits<double>::quiet_NaN();
  }
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

std::vector<std::string> Numbered(int64_t count, const std::string& prefix) {
  std::vector<std::string> labels;
  for (int64_t i = 0; i < count; ++i) labels.push_back(prefix + std::to_string(i));
  return labels;
}

}  // namespace folio
