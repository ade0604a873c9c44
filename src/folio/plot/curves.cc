#include "folio/plot/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "folio/base/check.h"
#include "folio/plot/reduce.h"
#include "folio/plot/svg.h"
#include "folio/plot/ticks.h"

namespace folio {
namespace {

constexpr double kFont = 12, kTitleFont = 16;
constexpr double kMargin = 16;       // around the figure
constexpr double kGap = 8;           // between tick labels and the axes
constexpr double kRow = 20;          // height of a legend row
constexpr double kSwatch = 26;       // length of a legend's line, and its gap to the label
constexpr size_t kDots = 60;         // series of at most so many points show them as dots
constexpr double kMaxGroups = 3600;  // over all series: bounds the size of the file
constexpr const char* kDashes[] = {"", "7 4", "2 4", "10 3 2 3"};

constexpr PlotPoint kGapPoint = {std::numeric_limits<double>::quiet_NaN(),
                                 std::numeric_limits<double>::quiet_NaN()};

struct Axis {
  bool log = false;
  double low = 0, high = 1;              // of the data, padded; logarithms if log
  double pixel_low = 0, pixel_high = 1;  // where they lie

  double Scaled(double value) const { return log ? std::log10(value) : value; }
  // Whether the value has a place: also not so large that a padded range would overflow.
  bool Shows(double value) const { return std::abs(Scaled(value)) <= (log ? 300 : 1e300); }
  double Pixel(double value) const {
    return pixel_low + (Scaled(value) - low) / (high - low) * (pixel_high - pixel_low);
  }
  std::vector<Tick> Ticks(double pixels_each) const {
    const int count = std::max(2, static_cast<int>(std::abs(pixel_high - pixel_low) / pixels_each));
    if (!log) return LinearTicks(low, high, count);
    return LogTicks(std::pow(10.0, std::max(low, -305.0)), std::pow(10.0, std::min(high, 305.0)),
                    count);
  }
};

// The ranges of all points that can be drawn, y widened a little; a range of no extent becomes one
// around its value. Returns whether there is any point.
bool FitRanges(std::span<const Series> series, Axis& x, Axis& y) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  x.low = y.low = kInfinity;
  x.high = y.high = -kInfinity;
  for (const Series& s : series) {
    for (size_t i = 0; i < s.x.size(); ++i) {
      if (!x.Shows(s.x[i]) || !y.Shows(s.y[i])) continue;
      x.low = std::min(x.low, x.Scaled(s.x[i]));
      x.high = std::max(x.high, x.Scaled(s.x[i]));
      y.low = std::min(y.low, y.Scaled(s.y[i]));
      y.high = std::max(y.high, y.Scaled(s.y[i]));
    }
  }
  const bool any = x.low <= x.high;
  for (Axis* axis : {&x, &y}) {
    if (!any) {
      axis->low = 0;
      axis->high = 1;
    }
    const double size = std::max(std::abs(axis->low), std::abs(axis->high));
    double padding = (axis->high - axis->low) * (axis == &y ? 0.04 : 0.0);
    if (axis->high - axis->low <= std::max(size * 1e-10, 1e-290)) {
      padding = axis->log || size < 1e-280 ? 0.5 : size * 0.1;
    }
    axis->low -= padding;
    axis->high += padding;
  }
  return any;
}

// Where a series finds its colour and dashes.
struct Look {
  std::string colour;
  std::string dashes;
  double opacity, line_width;
};

Look LookOf(const Series& series, size_t index) {
  const size_t round = index / kSeriesColours + (series.dashed ? 1 : 0);
  return {fmt::format("line s{}", index % kSeriesColours), kDashes[round % std::size(kDashes)],
          series.faint ? 0.4 : 1.0, series.faint ? 1.0 : 1.8};
}

struct LegendEntry {
  std::string label;
  Look look;
  double x, y;  // of the swatch's left end
};

// Places the labelled series in rows from `top` on, at most `max_rows`; the last entry says how
// many are left out, if any. Returns the height used.
double PlaceLegend(std::span<const Series> series, double width, double top, int max_rows,
                   std::vector<LegendEntry>& entries) {
  double x = kMargin;
  int row = 0;
  size_t left_out = 0;
  for (size_t i = 0; i < series.size(); ++i) {
    if (series[i].label.empty()) continue;
    const std::string label = FitText(series[i].label, kFont,
                                      width - 2 * kMargin - kSwatch - 80);  // room for "+ 99 more"
    const double entry_width = kSwatch + TextWidth(label, kFont) + 2 * kGap;
    const double limit = width - kMargin - (row + 1 == max_rows ? 80 : 0);
    if (x > kMargin && x + entry_width > limit && left_out == 0) {
      if (row + 1 < max_rows) {
        ++row;
        x = kMargin;
      } else {
        left_out = 1;
        continue;
      }
    }
    if (left_out > 0) {
      ++left_out;
      continue;
    }
    entries.push_back({label, LookOf(series[i], i), x, top + row * kRow + kRow / 2});
    x += entry_width;
  }
  if (left_out > 0) {
    entries.push_back({fmt::format("+ {} more", left_out), {}, x, top + row * kRow + kRow / 2});
  }
  return entries.empty() ? 0 : (row + 1) * kRow;
}

void DrawLegend(SvgWriter& svg, std::span<const LegendEntry> entries) {
  for (const LegendEntry& entry : entries) {
    double text_x = entry.x;
    if (!entry.look.colour.empty()) {
      svg.Element("path",
                  {{"class", entry.look.colour},
                   {"stroke-width", std::max(entry.look.line_width, 1.5)},
                   {"stroke-opacity", entry.look.opacity},
                   {"stroke-dasharray", entry.look.dashes.empty() ? "none" : entry.look.dashes},
                   {"d", fmt::format("M{} {}h{}", SvgNumber(entry.x), SvgNumber(entry.y),
                                     SvgNumber(kSwatch - 6))}});
      text_x += kSwatch;
    }
    svg.Text(entry.label, {{"class", "ink"}, {"x", text_x}, {"y", entry.y + kFont * 0.35}});
  }
}

// Grid, tick labels, axis lines and names.
void DrawAxes(SvgWriter& svg, const Axis& x, const Axis& y, std::span<const Tick> x_ticks,
              std::span<const Tick> y_ticks, const CurvesOptions& options) {
  std::string grid;
  for (const Tick& tick : y_ticks) {
    const double at = y.Pixel(tick.value);
    grid +=
        fmt::format("M{} {}H{}", SvgNumber(x.pixel_low), SvgNumber(at), SvgNumber(x.pixel_high));
    svg.Text(tick.label, {{"class", "muted"},
                          {"x", x.pixel_low - kGap},
                          {"y", at + kFont * 0.35},
                          {"text-anchor", "end"}});
  }
  for (const Tick& tick : x_ticks) {
    const double at = x.Pixel(tick.value);
    grid +=
        fmt::format("M{} {}V{}", SvgNumber(at), SvgNumber(y.pixel_low), SvgNumber(y.pixel_high));
    svg.Text(tick.label, {{"class", "muted"},
                          {"x", at},
                          {"y", y.pixel_low + kGap + kFont * 0.8},
                          {"text-anchor", "middle"}});
  }
  svg.Element("path", {{"class", "grid"}, {"fill", "none"}, {"d", grid}});
  svg.Element("path",
              {{"class", "axis"},
               {"fill", "none"},
               {"d", fmt::format("M{} {}V{}H{}", SvgNumber(x.pixel_low), SvgNumber(y.pixel_high),
                                 SvgNumber(y.pixel_low), SvgNumber(x.pixel_high))}});
  const double x_length = x.pixel_high - x.pixel_low, y_length = y.pixel_low - y.pixel_high;
  svg.Text(FitText(options.x_label, kFont, x_length), {{"class", "ink"},
                                                       {"x", (x.pixel_low + x.pixel_high) / 2},
                                                       {"y", options.height - kMargin + 2},
                                                       {"text-anchor", "middle"}});
  const double middle = (y.pixel_low + y.pixel_high) / 2;
  svg.Text(FitText(options.y_label, kFont, y_length),
           {{"class", "ink"},
            {"transform", fmt::format("translate({} {}) rotate(-90)", SvgNumber(kMargin + 4),
                                      SvgNumber(middle))},
            {"text-anchor", "middle"}});
}

void DrawSeries(SvgWriter& svg, const Series& series, const Look& look, const Axis& x,
                const Axis& y, double column) {
  std::vector<PlotPoint> points(series.x.size());
  for (size_t i = 0; i < points.size(); ++i) {
    const bool shows = x.Shows(series.x[i]) && y.Shows(series.y[i]);
    points[i] = shows ? PlotPoint{x.Pixel(series.x[i]), y.Pixel(series.y[i])} : kGapPoint;
  }
  points = ReduceLine(points, column);
  std::string line, dots;
  bool pen_down = false;
  for (size_t i = 0; i < points.size(); ++i) {
    const PlotPoint& point = points[i];
    if (!std::isfinite(point.x) || !std::isfinite(point.y)) {
      pen_down = false;
      continue;
    }
    const bool alone = !pen_down && (i + 1 == points.size() || !std::isfinite(points[i + 1].y));
    line += fmt::format("{}{:.1f} {:.1f}", pen_down ? "L" : "M", point.x, point.y);
    pen_down = true;
    if (alone || (series.x.size() <= kDots && !series.faint)) {
      dots += fmt::format("M{:.1f} {:.1f}h0", point.x, point.y);
    }
  }
  svg.Element("path", {{"class", look.colour},
                       {"stroke-width", look.line_width},
                       {"stroke-opacity", look.opacity},
                       {"stroke-dasharray", look.dashes.empty() ? "none" : look.dashes},
                       {"d", line}});
  if (dots.empty()) return;
  svg.Element("path", {{"class", look.colour},
                       {"stroke-width", look.line_width * 3},
                       {"stroke-opacity", look.opacity},
                       {"d", dots}});
}

}  // namespace

std::string CurvesSvg(std::span<const Series> series, const CurvesOptions& options) {
  FOLIO_CHECK(options.width >= 200 && options.height >= 150, "the figure is too small");
  for (const Series& s : series) FOLIO_CHECK(s.x.size() == s.y.size(), "x and y differ in length");

  Axis x{.log = options.log_x}, y{.log = options.log_y};
  const bool any = FitRanges(series, x, y);

  const double legend_top = kMargin + (options.title.empty() ? 0 : kTitleFont + kGap);
  std::vector<LegendEntry> legend;
  const int max_rows = std::max(1, static_cast<int>((options.height - 120) * 0.4 / kRow));
  const double legend_height = PlaceLegend(series, options.width, legend_top, max_rows, legend);

  y.pixel_high = legend_top + legend_height + kFont;
  y.pixel_low =
      options.height - kMargin - kFont - kGap - (options.x_label.empty() ? 0 : kFont + kGap);
  const std::vector<Tick> y_ticks = y.Ticks(38);
  double label_width = 0;
  for (const Tick& tick : y_ticks) {
    label_width = std::max(label_width, TextWidth(tick.label, kFont));
  }
  x.pixel_low = kMargin + (options.y_label.empty() ? 0 : kFont + kGap) + label_width + kGap;
  x.pixel_high = options.width - kMargin - kGap;
  const std::vector<Tick> x_ticks = x.Ticks(75);

  SvgWriter svg(options.width, options.height, options.title);
  if (!options.title.empty()) {
    svg.Text(FitText(options.title, kTitleFont, options.width - 2 * kMargin),
             {{"class", "ink"},
              {"x", kMargin},
              {"y", kMargin + kTitleFont * 0.8},
              {"font-size", kTitleFont},
              {"font-weight", "600"}});
  }
  DrawLegend(svg, legend);
  DrawAxes(svg, x, y, x_ticks, y_ticks, options);
  if (!any) {
    svg.Text("no data", {{"class", "muted"},
                         {"x", (x.pixel_low + x.pixel_high) / 2},
                         {"y", (y.pixel_low + y.pixel_high) / 2},
                         {"text-anchor", "middle"}});
  }
  const double columns = (x.pixel_high - x.pixel_low) * static_cast<double>(series.size());
  const double column = std::max(1.0, columns / kMaxGroups);
  for (const bool faint : {true, false}) {
    for (size_t i = 0; i < series.size(); ++i) {
      if (series[i].faint != faint) continue;
      DrawSeries(svg, series[i], LookOf(series[i], i), x, y, column);
    }
  }
  return std::move(svg).Finish();
}

}  // namespace folio
