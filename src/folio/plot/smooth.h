#pragma once

#include <span>
#include <vector>

namespace folio {

// Exponential mean with bias correction (D. P. Kingma, J. Ba, arXiv:1412.6980, section 3): the
// first value is y[0], and `weight` in [0,1) is how much of the past each value keeps. Values that
// are not finite stay as they are and do not enter the mean.
std::vector<double> Smooth(std::span<const double> y, double weight);

}  // namespace folio
