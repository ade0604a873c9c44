#pragma once

#include <span>
#include <vector>

namespace folio {

// Exponential mean with bias correction (D. P. Kingma, J. Ba, arXiv:1412.6980, section 3): the
// first value is y[0], and `weight` in [0,1) is how much of the past each value keeps. Values that
// are not finite stay as they are and do not enter the mean.
std::vector<double> Smooth(std::span<const double> y, double weight);

struct PlotPoint {
  double x, y;  // pixels; not finite where there is no value
};

bool IsFinite(const PlotPoint& point);

// A line's points, in pixels, reduced to what can be seen: of consecutive points within one column
// of `column` pixels the first, the lowest, the highest and the last stay, in their order. Points
// whose x does not grow are also merged by number so that at most about 4000 groups remain. A gap
// stays where no finite point follows it in its group, as one point that is not finite.
// REQUIRES: column > 0.
std::vector<PlotPoint> ReduceLine(std::span<const PlotPoint> points, double column);

}  // namespace folio
