#include "folio/base/percentile.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "folio/base/check.h"

namespace folio {

double Percentile(std::vector<double> values, double p) {
  FOLIO_CHECK(!values.empty(), "no values");
  std::ranges::sort(values,
                    [](double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); });
  const double at = p * static_cast<double>(values.size() - 1);
  const size_t below = static_cast<size_t>(at);
  const double part = at - static_cast<double>(below);
  return part == 0 ? values[below] : (1 - part) * values[below] + part * values[below + 1];
}

double Median(std::vector<double> values) {
  return Percentile(std::move(values), 0.5);
}

}  // namespace folio
