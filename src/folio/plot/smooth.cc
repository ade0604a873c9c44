#include "folio/plot/smooth.h"

#include <cmath>

#include "folio/base/check.h"

namespace folio {

std::vector<double> Smooth(std::span<const double> y, double weight) {
  FOLIO_CHECK(0 <= weight && weight < 1, "the weight of the past is in [0,1)");
  std::vector<double> smooth(y.begin(), y.end());
  double sum = 0, total = 0;  // of values and of their weights
  for (double& value : smooth) {
    if (!std::isfinite(value)) continue;
    sum = weight * sum + (1 - weight) * value;
    total = weight * total + (1 - weight);
    value = sum / total;
  }
  return smooth;
}

}  // namespace folio
