#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "folio/base/check.h"

namespace folio {

// The value below which the part `p` in [0, 1] of the values lies (linear between neighbours; 0.5
// is the median). REQUIRES: there are values.
inline double Percentile(std::vector<double> values, double p) {
  FOLIO_CHECK(!values.empty(), "no values");
  std::ranges::sort(values);
  const double at = p * static_cast<double>(values.size() - 1);
  const size_t below = static_cast<size_t>(std::floor(at));
  const size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], at - static_cast<double>(below));
}

}  // namespace folio
