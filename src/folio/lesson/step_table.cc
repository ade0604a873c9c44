#include "folio/lesson/step_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "folio/base/check.h"

namespace folio {
namespace {

constexpr double kLongNumber = 1e7;  // is written with an exponent

double At(const StepValues& values, int64_t row, int64_t column) {
  return values.values[static_cast<size_t>(row * values.columns() + column)];
}

}  // namespace

bool IsMasked(const StepValues& values, int64_t row, int64_t column) {
  return values.masks && std::isnan(At(values, row, column));
}

std::string CellText(const StepValues& values, int64_t row, int64_t column) {
  const double value = At(values, row, column);
  if (std::isnan(value)) return values.masks ? "" : "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  if (values.scientific) return fmt::format("{:.{}e}", value, values.digits);
  const double size = std::abs(value);
  if (size >= kLongNumber) return fmt::format("{:.{}e}", value, std::min(values.digits, 4));
  if (size != 0 && size < 0.5 * std::pow(10.0, -values.digits)) return fmt::format("{:.0e}", value);
  return fmt::format("{:.{}f}", value == 0 ? 0.0 : value, values.digits);
}

double LargestSize(const StepValues& values) {
  double largest = 0;
  for (const double value : values.values) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  return largest;
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

int64_t LeftOut(const std::vector<int64_t>& shown, int64_t count) {
  return count - static_cast<int64_t>(shown.size()) + std::ranges::count(shown, -1);
}

std::string ShapeText(const StepValues& values) {
  if (values.shape.size() == 2) return fmt::format("{} × {}", values.rows(), values.columns());
  return values.columns() == 1 ? "1 number" : fmt::format("{} numbers", values.columns());
}

}  // namespace folio
