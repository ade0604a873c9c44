#include "folio/plot/lines.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "folio/base/check.h"

namespace folio {
namespace {

constexpr size_t kMaxGroups = 4000;

bool XGrows(std::span<const PlotPoint> points) {
  double last = -std::numeric_limits<double>::infinity();
  for (const PlotPoint& point : points) {
    if (!IsFinite(point)) continue;
    if (point.x < last) return false;
    last = point.x;
  }
  return true;
}

// Appends what is seen of one group.
void AppendGroup(std::span<const PlotPoint> group, std::vector<PlotPoint>& out) {
  constexpr size_t kNone = std::numeric_limits<size_t>::max();
  size_t first = kNone, low = kNone, high = kNone, last = kNone;
  for (size_t i = 0; i < group.size(); ++i) {
    if (!IsFinite(group[i])) continue;
    if (first == kNone) first = low = high = i;
    if (group[i].y < group[low].y) low = i;
    if (group[i].y > group[high].y) high = i;
    last = i;
  }
  size_t previous = kNone;
  for (size_t i : {first, std::min(low, high), std::max(low, high), last}) {
    if (i != kNone && i != previous) out.push_back(group[i]);
    previous = i;
  }
  const bool ends_in_gap = last == kNone || last + 1 < group.size();
  if (ends_in_gap && !out.empty() && IsFinite(out.back())) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    out.push_back({nan, nan});
  }
}

}  // namespace

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

bool IsFinite(const PlotPoint& point) {
  return std::isfinite(point.x) && std::isfinite(point.y);
}

std::vector<PlotPoint> ReduceLine(std::span<const PlotPoint> points, double column) {
  FOLIO_CHECK(column > 0, "columns need a width");
  const size_t min_group = XGrows(points) ? 1 : points.size() / kMaxGroups + 1;
  std::vector<PlotPoint> out;
  for (size_t begin = 0; begin < points.size();) {
    double place = std::numeric_limits<double>::quiet_NaN();  // the group's column, once known
    size_t end = begin;
    for (; end < points.size(); ++end) {
      if (!IsFinite(points[end])) continue;
      const double here = std::floor(points[end].x / column);
      if (std::isnan(place)) place = here;
      if (here != place && end - begin >= min_group) break;
    }
    AppendGroup(points.subspan(begin, end - begin), out);
    begin = end;
  }
  return out;
}

}  // namespace folio
