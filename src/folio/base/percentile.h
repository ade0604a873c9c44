#pragma once

#include <vector>

namespace folio {

// The value below which the part `p` in [0, 1] of the values lies, linear between neighbours; NaNs
// count as the largest. REQUIRES: there are values.
double Percentile(std::vector<double> values, double p);

// The middle one; of an even number of values the mean of the two in the middle.
double Median(std::vector<double> values);

}  // namespace folio
