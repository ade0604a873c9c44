#include "folio/report/matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "folio/base/check.h"

namespace folio {
namespace {

constexpr double kLongNumber = 1e7;  // is written with an exponent

}  // namespace

Matrix MakeMatrix(std::vector<int64_t> shape, std::vector<double> values, MatrixLabels labels) {
  Matrix matrix{.shape = std::move(shape),
                .values = std::move(values),
                .row_labels = std::move(labels.rows),
                .column_labels = std::move(labels.columns),
                .row_axis = std::move(labels.row_axis),
                .column_axis = std::move(labels.column_axis)};
  FOLIO_CHECK(std::ssize(matrix.values) == matrix.rows() * matrix.columns(), "numbers of a shape");
  FOLIO_CHECK(matrix.row_labels.empty() || std::ssize(matrix.row_labels) == matrix.rows(),
              "a label for each row");
  FOLIO_CHECK(matrix.column_labels.empty() || std::ssize(matrix.column_labels) == matrix.columns(),
              "a label for each column");
  return matrix;
}

Matrix RowValues(std::vector<double> values, MatrixLabels labels) {
  const int64_t columns = std::ssize(values);
  return MakeMatrix({columns}, std::move(values), std::move(labels));
}

Matrix StackedValues(const std::vector<std::vector<double>>& rows, MatrixLabels labels) {
  std::vector<double> all;
  for (const std::vector<double>& row : rows) {
    FOLIO_CHECK(row.size() == rows.front().size(), "rows of equal length");
    all.insert(all.end(), row.begin(), row.end());
  }
  const int64_t columns = rows.empty() ? 0 : std::ssize(rows.front());
  return MakeMatrix({std::ssize(rows), columns}, std::move(all), std::move(labels));
}

std::vector<std::string> Numbered(int64_t count, const std::string& prefix) {
  std::vector<std::string> labels;
  for (int64_t i = 0; i < count; ++i) labels.push_back(prefix + std::to_string(i));
  return labels;
}

Matrix Plain(Matrix values, int digits) {
  values.heat = false;
  values.digits = digits;
  return values;
}

Matrix Scientific(Matrix values) {
  values.scientific = true;
  return values;
}

void MarkMasked(Matrix& values, std::span<const uint8_t> mask) {
  FOLIO_CHECK(mask.size() == values.values.size(), "a mark for each value");
  for (size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] == 0) values.values[i] = std::numeric_limits<double>::quiet_NaN();
  }
}

bool IsMasked(const Matrix& values, int64_t row, int64_t column) {
  return values.masks && std::isnan(values.At(row, column));
}

std::string CellText(const Matrix& values, int64_t row, int64_t column) {
  const double value = values.At(row, column);
  if (std::isnan(value)) return values.masks ? "" : "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  if (values.scientific) return fmt::format("{:.{}e}", value, values.digits);
  const double size = std::abs(value);
  if (size >= kLongNumber) return fmt::format("{:.{}e}", value, std::min(values.digits, 4));
  if (size != 0 && size < 0.5 * std::pow(10.0, -values.digits)) return fmt::format("{:.0e}", value);
  return fmt::format("{:.{}f}", value == 0 ? 0.0 : value, values.digits);
}

double LargestSize(const Matrix& values) {
  double largest = 0;
  for (const double value : values.values) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  return largest;
}

std::string ShapeText(const Matrix& values) {
  if (values.shape.size() == 2) return fmt::format("{} × {}", values.rows(), values.columns());
  return values.columns() == 1 ? "1 number" : fmt::format("{} numbers", values.columns());
}

std::vector<int64_t> CutMiddle(int64_t count, int64_t most) {
  FOLIO_CHECK(most >= 3, "a cut table has a beginning, a gap and an end");
  std::vector<int64_t> shown;
  const int64_t first = count <= most ? count : most / 2;
  for (int64_t i = 0; i < first; ++i) shown.push_back(i);
  if (count > most) {
    shown.push_back(-1);
    for (int64_t i = count - (most - 1 - first); i < count; ++i) shown.push_back(i);
  }
  return shown;
}

std::string LeftOutText(const std::vector<int64_t>& shown, int64_t count, const std::string& what) {
  if (std::ranges::count(shown, -1) == 0) return "";
  return fmt::format("({} {} in the middle left out)", count - std::ssize(shown) + 1, what);
}

}  // namespace folio
