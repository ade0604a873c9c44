#include "folio/plot/scatter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "folio/base/check.h"
#include "folio/plot/svg.h"

namespace folio {
namespace {

constexpr double kDotFont = 11, kDotAxisFont = 12, kDotGap = 6, kMaxDotLabel = 140;
constexpr double kDot = 5, kSmallDot = 3.2;  // diameters
constexpr size_t kMany = 500;                // points
constexpr double kSquare = 6;                // of the cloud
constexpr double kFaintest = 0.25, kDensest = 0.8;
constexpr double kLargestValue = 1e300;  // values beyond are not drawn

// Values to pixels, with some room at both ends.
struct Axis {
  double low = 0, high = 1, pixel_low = 0, pixel_high = 1;

  double Pixel(double value) const {
    return pixel_low + (value - low) / (high - low) * (pixel_high - pixel_low);
  }
  double Middle() const { return (pixel_low + pixel_high) / 2; }
};

bool Shows(const ScatterPoint& point) {
  return std::abs(point.x) <= kLargestValue && std::abs(point.y) <= kLargestValue;
}

Axis FitAxis(std::span<const ScatterPoint> points, std::span<const ScatterPoint> cloud,
             double ScatterPoint::*coordinate) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const std::span<const ScatterPoint> some : {points, cloud}) {
    for (const ScatterPoint& point : some) {
      if (!Shows(point)) continue;
      low = std::min(low, point.*coordinate);
      high = std::max(high, point.*coordinate);
    }
  }
  if (low > high) return {};
  // Values that differ less than a double can tell apart from their neighbours are one.
  const double least = std::max({std::abs(low), std::abs(high), 1e-290}) * 1e-9;
  double room = (high - low) * 0.04;
  if (high - low < least) room = std::max(least, std::abs(high) > 0 ? std::abs(high) * 0.1 : 1);
  return {.low = low - room, .high = high + room};
}

// Occupancy knows which small squares of the figure something lies on.
class Occupancy {
 public:
  Occupancy(double width, double height)
      : columns_(Square(width) + 1), taken_((Square(height) + 1) * columns_) {}

  bool Free(double x, double y, double width, double height) const {
    bool free = true;
    Visit(x, y, width, height, [&](size_t i) { free = free && !taken_[i]; });
    return free;
  }
  void Take(double x, double y, double width, double height) {
    Visit(x, y, width, height, [&](size_t i) { taken_[i] = true; });
  }

 private:
  static size_t Square(double pixel) { return static_cast<size_t>(std::max(pixel, 0.0) / 2); }

  template <typename Function>
  void Visit(double x, double y, double width, double height, Function function) const {
    const size_t right = std::min(Square(x + width), columns_ - 1);
    const size_t bottom = std::min(Square(y + height), taken_.size() / columns_ - 1);
    for (size_t row = Square(y); row <= bottom; ++row) {
      for (size_t column = Square(x); column <= right; ++column) function(row * columns_ + column);
    }
  }

  size_t columns_;
  std::vector<bool> taken_;
};

void DrawAxes(SvgWriter& svg, const Axis& x, const Axis& y, const ScatterOptions& options) {
  std::string lines;
  for (const Tick& tick : LinearTicks(x.low, x.high, 8)) {
    const double at = x.Pixel(tick.value);
    lines +=
        fmt::format("M{} {}V{}", SvgNumber(at), SvgNumber(y.pixel_low), SvgNumber(y.pixel_high));
    svg.Text(tick.label, at, y.pixel_low + kDotGap + kDotFont,
             {.style = "muted", .font = kDotFont, .anchor = "middle"});
  }
  for (const Tick& tick : LinearTicks(y.low, y.high, 8)) {
    const double at = y.Pixel(tick.value);
    lines +=
        fmt::format("M{} {}H{}", SvgNumber(x.pixel_low), SvgNumber(at), SvgNumber(x.pixel_high));
    svg.Text(tick.label, x.pixel_low - kDotGap, at + kDotFont * 0.35,
             {.style = "muted", .font = kDotFont, .anchor = "end"});
  }
  svg.Element("path", {{"class", "grid"}, {"d", lines}});
  svg.Rect("frame",
           {x.pixel_low, y.pixel_high, x.pixel_high - x.pixel_low, y.pixel_low - y.pixel_high});
  if (!options.x_label.empty()) {
    svg.Text(FitText(options.x_label, kDotAxisFont, x.pixel_high - x.pixel_low), x.Middle(),
             options.height - kFigureMargin, {.font = kDotAxisFont, .anchor = "middle"});
  }
  if (!options.y_label.empty()) {
    svg.Text(FitText(options.y_label, kDotAxisFont, y.pixel_low - y.pixel_high),
             kFigureMargin + kDotAxisFont * 0.8, y.Middle(),
             {.font = kDotAxisFont, .anchor = "middle", .turned = true});
  }
}

// A dot and a name for each colour that has one and is of some point, in lines of at most `width`.
class GroupLegend {
 public:
  GroupLegend(std::span<const ScatterPoint> points, const std::vector<std::string>& groups,
              double width) {
    double x = 0, line = 0;
    for (size_t group = 0; group < groups.size(); ++group) {
      const auto of_it = [&](const ScatterPoint& point) {
        return std::cmp_equal(point.colour, group) && Shows(point);
      };
      if (std::none_of(points.begin(), points.end(), of_it)) continue;
      const std::string name = FitText(groups[group], kDotFont, width - kSwatch);
      const double needed = kSwatch + TextWidth(name, kDotFont);
      if (x > 0 && x + needed > width) {
        x = 0;
        ++line;
      }
      entries_.push_back({name, group, x, line * kLine});
      x += needed + kApart;
    }
    height_ = entries_.empty() ? 0 : (line + 1) * kLine + kDotGap;
  }

  double Height() const { return height_; }  // with the space below

  void Draw(SvgWriter& svg, double left, double top) const {
    for (const Entry& entry : entries_) {
      const double x = left + entry.x, y = top + entry.y;
      svg.Element("path", {{"class", fmt::format("line s{}", entry.group % kSeriesColours)},
                           {"stroke-width", kDot + 2},
                           {"d", fmt::format("M{:.1f} {:.1f}h0", x + kDot, y + kDotFont * 0.65)}});
      svg.Text(entry.name, x + kSwatch, y + kDotFont, {.font = kDotFont});
    }
  }

 private:
  static constexpr double kSwatch = 14, kApart = 18, kLine = kDotFont * 1.5;

  struct Entry {
    std::string name;
    size_t group;
    double x, y;
  };
  std::vector<Entry> entries_;
  double height_ = 0;
};

void DrawPoints(SvgWriter& svg, std::span<const ScatterPoint> points, const Axis& x, const Axis& y,
                double diameter) {
  std::array<std::string, kSeriesColours> dots;
  for (const ScatterPoint& point : points) {
    if (!Shows(point)) continue;
    dots[static_cast<size_t>(point.colour % kSeriesColours)] +=
        fmt::format("M{:.1f} {:.1f}h0", x.Pixel(point.x), y.Pixel(point.y));
  }
  for (size_t i = 0; i < dots.size(); ++i) {
    if (dots[i].empty()) continue;
    svg.Element("path", {{"class", fmt::format("line s{}", i)},
                         {"stroke-width", diameter},
                         {"stroke-opacity", diameter == kDot ? 0.9 : 0.6},
                         {"d", dots[i]}});
  }
}

// Draws how many points of the cloud lie in each small square, as a shade by its square root.
void DrawCloud(SvgWriter& svg, std::span<const ScatterPoint> cloud, const Axis& x, const Axis& y) {
  std::map<std::pair<int64_t, int64_t>, int64_t> counts;
  int64_t most = 1;
  for (const ScatterPoint& point : cloud) {
    if (!Shows(point)) continue;
    const std::pair square = {static_cast<int64_t>(x.Pixel(point.x) / kSquare),
                              static_cast<int64_t>(y.Pixel(point.y) / kSquare)};
    most = std::max(most, ++counts[square]);
  }
  svg.Open("g", {{"shape-rendering", "crispEdges"}});
  for (const auto& [square, count] : counts) {
    const double share = static_cast<double>(count) / static_cast<double>(most);
    svg.Rect("off",
             {static_cast<double>(square.first) * kSquare,
              static_cast<double>(square.second) * kSquare, kSquare, kSquare},
             kFaintest + (kDensest - kFaintest) * std::sqrt(share));
  }
  svg.Close();
}

// Right of its point, left of it, above or below: wherever it covers no point and no label.
void DrawLabels(SvgWriter& svg, std::span<const ScatterPoint> points, const Axis& x, const Axis& y,
                double diameter, Occupancy& occupancy) {
  const double r = diameter / 2;
  for (const ScatterPoint& point : points) {
    if (!Shows(point)) continue;
    occupancy.Take(x.Pixel(point.x) - r, y.Pixel(point.y) - r, diameter, diameter);
  }
  const double height = kDotFont * 1.25, away = r + 3;
  for (const ScatterPoint& point : points) {
    if (!Shows(point) || point.label.empty()) continue;
    const std::string label = FitText(point.label, kDotFont, kMaxDotLabel);
    const double width = TextWidth(label, kDotFont);
    const double px = x.Pixel(point.x), py = y.Pixel(point.y);
    const double places[][2] = {{px + away, py - height / 2},
                                {px - away - width, py - height / 2},
                                {px - width / 2, py - away - height},
                                {px - width / 2, py + away}};
    for (const auto& [left, top] : places) {
      const bool inside = left > x.pixel_low && left + width < x.pixel_high && top > y.pixel_high &&
                          top + height < y.pixel_low;
      if (!inside || !occupancy.Free(left, top, width, height)) continue;
      occupancy.Take(left, top, width, height);
      const bool before = left + width<px, beside = left> px;
      const double at = before ? left + width : beside ? left : px;
      const char* anchor = before ? "end" : beside ? "start" : "middle";
      svg.Text(label, at, top + kDotFont, {.font = kDotFont, .anchor = anchor});
      break;
    }
  }
}

}  // namespace

std::string ScatterSvg(std::span<const ScatterPoint> points, const ScatterOptions& options) {
  FOLIO_CHECK(options.width >= 200 && options.height >= 150, "the figure is too small");
  for (const ScatterPoint& point : points) FOLIO_CHECK(point.colour >= 0, "no such colour");
  const Heading heading(options.title, {}, options.width - 2 * kFigureMargin);
  const GroupLegend legend(points, options.groups, options.width - 2 * kFigureMargin);
  Axis x = FitAxis(points, options.cloud, &ScatterPoint::x);
  Axis y = FitAxis(points, options.cloud, &ScatterPoint::y);
  double label_width = 0;
  for (const Tick& tick : LinearTicks(y.low, y.high, 8)) {
    label_width = std::max(label_width, TextWidth(tick.label, kDotFont));
  }
  const double row = kDotAxisFont + kDotGap;
  x.pixel_low = kFigureMargin + label_width + kDotGap + (options.y_label.empty() ? 0 : row);
  x.pixel_high = options.width - kFigureMargin;
  y.pixel_low =
      options.height - kFigureMargin - kDotGap - kDotFont - (options.x_label.empty() ? 0 : row);
  y.pixel_high = kFigureMargin + heading.Height() + legend.Height();

  SvgWriter svg(options.width, options.height, options.title.empty() ? "points" : options.title);
  heading.Draw(svg, kFigureMargin, kFigureMargin);
  legend.Draw(svg, kFigureMargin, kFigureMargin + heading.Height());
  DrawCloud(svg, options.cloud, x, y);
  DrawAxes(svg, x, y, options);
  if (std::none_of(points.begin(), points.end(), Shows)) {
    svg.Text("no data", x.Middle(), y.Middle(), {.style = "muted", .anchor = "middle"});
    return std::move(svg).Finish();
  }
  const double diameter = points.size() > kMany ? kSmallDot : kDot;
  DrawPoints(svg, points, x, y, diameter);
  Occupancy occupancy(options.width, options.height);
  DrawLabels(svg, points, x, y, diameter, occupancy);
  return std::move(svg).Finish();
}

}  // namespace folio
