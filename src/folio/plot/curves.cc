#include "folio/plot/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/plot/lines.h"
#include "folio/plot/svg.h"

namespace folio {
namespace {

inline constexpr double kChartFont = 12;

// The look of a line: classes, the pattern of its dashes ("none" without), and so on.
struct LineLook {
  std::string classes, dashes;
  double opacity = 1, width = 1;
};

// The look of the line at `index` of a list.
LineLook LookOf(const Series& series, size_t index);

// The x that axes have in common; empty at first.
struct XRange {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void Hold(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

// The box in which a chart lies, in pixels.
struct ChartBox {
  double left = 0, top = 0, right = 0, bottom = 0;
};

// One pair of axes with its lines, in a part of a figure, without title and legend.
class Chart {
 public:
  // All of the chart, its labels too, lies inside of `box`. Title and size of `options` do not
  // matter. The x axis reaches over `x_range` too.
  Chart(std::span<const Series> series, const CurvesOptions& options, ChartBox box,
        const XRange& x_range = {});

  // Points that are drawn.
  size_t points() const;
  // Merges points within columns of so many pixels.
  void Reduce(double column);
  void Draw(SvgWriter& svg) const;

 private:
  struct Axis {
    bool log = false;
    bool whole = false;                    // all data are whole numbers, and so are the ticks
    double low = 0, high = 1;              // of the data, padded; logarithms if log
    double pixel_low = 0, pixel_high = 1;  // where they lie

    double Scaled(double value) const;
    bool Shows(double value) const;
    double Pixel(double value) const;
    double Middle() const { return (pixel_low + pixel_high) / 2; }
    std::vector<Tick> Ticks(double pixels_each) const;
  };
  struct Line {
    LineLook look;
    bool faint, dotted;
    std::vector<PlotPoint> points;
    double dot = 3;  // by its width
  };

  bool FitRanges(std::span<const Series> series, const XRange& x_range);
  Line MakeLine(const Series& series, size_t index) const;  // with all points
  // Dashes for lines that would hide others.
  void ShowCovered();
  void DrawAxes(SvgWriter& svg) const;
  void DrawLine(SvgWriter& svg, const Line& line) const;

  std::string x_label_, y_label_;
  ChartBox box_;
  Axis x_, y_;
  std::vector<Tick> x_ticks_, y_ticks_;
  std::vector<Line> lines_;
  bool any_ = false;  // whether there is anything to be seen
};

constexpr double kTickGap = 8;  // between tick labels and the axes
constexpr size_t kDots = 60;    // series of at most so many points show them as dots
constexpr const char* kDashes[] = {"none", "7 4", "2 4", "10 3 2 3"};

// Dashes of the first, second, ... line that lies on others leave some of those below to be seen.
constexpr const char* kCovering[] = {"8 8", "4 12", "2 14"};
constexpr double kCoveringDots[] = {2, 1.4, 1};

constexpr PlotPoint kGapPoint = {std::numeric_limits<double>::quiet_NaN(),
                                 std::numeric_limits<double>::quiet_NaN()};

// Path data with one decimal, each point relative to the one before.
class PathData {
 public:
  void MoveTo(const PlotPoint& to) {
    x_ = std::llround(to.x * 10);
    y_ = std::llround(to.y * 10);
    data_ += 'M';
    data_ +=
        SvgNumber(static_cast<double>(x_) / 10) + ' ' + SvgNumber(static_cast<double>(y_) / 10);
    in_line_ = false;
  }
  void LineTo(const PlotPoint& to) {
    const long long x = std::llround(to.x * 10), y = std::llround(to.y * 10);
    if (!in_line_) data_ += 'l';
    Append(x - x_, in_line_);
    Append(y - y_, true);
    x_ = x;
    y_ = y;
    in_line_ = true;
  }
  void Dot() { data_ += "h0"; }

  const std::string& text() const { return data_; }

 private:
  void Append(long long tenths, bool separate) {
    std::string text = SvgNumber(static_cast<double>(tenths) / 10);
    if (text.starts_with("0.")) text.erase(0, 1);
    if (text.starts_with("-0.")) text.erase(1, 1);
    if (separate && text[0] != '-') data_ += ' ';
    data_ += text;
  }

  std::string data_;
  long long x_ = 0, y_ = 0;
  bool in_line_ = false;
};

// Returns whether one line hides the other as far as both go: nearly all of their points are the
// same.
bool Coincide(const std::vector<PlotPoint>& a, const std::vector<PlotPoint>& b) {
  constexpr double kSame = 0.75, kMostly = 0.9;
  const size_t count = std::min(a.size(), b.size());
  size_t both = 0, same = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!IsFinite(a[i]) || !IsFinite(b[i])) continue;
    ++both;
    if (std::abs(a[i].x - b[i].x) < kSame && std::abs(a[i].y - b[i].y) < kSame) ++same;
  }
  return same > 0 && static_cast<double>(same) >= kMostly * static_cast<double>(both);
}

LineLook LookOf(const Series& series, size_t index) {
  const size_t place = series.colour < 0 ? index : static_cast<size_t>(series.colour);
  const size_t round = place / kSeriesColours + (series.dashed ? 1 : 0);
  return {fmt::format("line s{}", place % kSeriesColours), kDashes[round % std::size(kDashes)],
          series.faint ? 0.4 : 1.0, series.faint ? 1.0 : 1.8};
}

double Chart::Axis::Scaled(double value) const {
  return log ? std::log10(value) : value;
}

// Also not so large that a padded range would overflow.
bool Chart::Axis::Shows(double value) const {
  return std::abs(Scaled(value)) <= (log ? 300 : 1e300);
}

double Chart::Axis::Pixel(double value) const {
  return pixel_low + (Scaled(value) - low) / (high - low) * (pixel_high - pixel_low);
}

std::vector<Tick> Chart::Axis::Ticks(double pixels_each) const {
  int count = std::max(2, static_cast<int>(std::abs(pixel_high - pixel_low) / pixels_each));
  if (whole) count = std::clamp(static_cast<int>(std::min(high - low, 1e6)), 1, count);
  if (!log) return LinearTicks(low, high, count);
  return LogTicks(std::pow(10.0, std::max(low, -305.0)), std::pow(10.0, std::min(high, 305.0)),
                  count);
}

// The ranges of all points that can be drawn, y widened a little; a range of no extent becomes one
// around its value. Returns whether there is any point.
bool Chart::FitRanges(std::span<const Series> series, const XRange& x_range) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  x_.whole = !x_.log;
  x_.low = y_.low = kInfinity;
  x_.high = y_.high = -kInfinity;
  for (const Series& s : series) {
    for (size_t i = 0; i < s.x.size(); ++i) {
      if (!x_.Shows(s.x[i]) || !y_.Shows(s.y[i])) continue;
      x_.low = std::min(x_.low, x_.Scaled(s.x[i]));
      x_.high = std::max(x_.high, x_.Scaled(s.x[i]));
      x_.whole = x_.whole && s.x[i] == std::floor(s.x[i]);
      y_.low = std::min(y_.low, y_.Scaled(s.y[i]));
      y_.high = std::max(y_.high, y_.Scaled(s.y[i]));
    }
  }
  const bool any = x_.low <= x_.high;
  if (any && x_range.low <= x_range.high) {
    x_.low = std::min(x_.low, x_.Scaled(x_range.low));
    x_.high = std::max(x_.high, x_.Scaled(x_range.high));
  }
  for (Axis* axis : {&x_, &y_}) {
    if (!any) {
      axis->low = 0;
      axis->high = 1;
    }
    const double size = std::max(std::abs(axis->low), std::abs(axis->high));
    double padding = (axis->high - axis->low) * (axis == &y_ ? 0.04 : 0.0);
    if (axis->high - axis->low <= std::max(size * 1e-10, 1e-290)) {
      padding = axis->log || size < 1e-280 ? 0.5 : size * 0.1;
    }
    axis->low -= padding;
    axis->high += padding;
  }
  return any;
}

Chart::Chart(std::span<const Series> series, const CurvesOptions& options, ChartBox box,
             const XRange& x_range)
    : x_label_(options.x_label), y_label_(options.y_label), box_(box) {
  for (const Series& s : series) {
    if (s.x.size() == s.y.size()) continue;
    throw UsageError(fmt::format("the curve '{}' has no y for each x", s.label),
                     fmt::format("there are {} and {}", s.x.size(), s.y.size()));
  }
  x_.log = options.log_x;
  y_.log = options.log_y;
  any_ = FitRanges(series, x_range);
  y_.pixel_high = box.top;
  y_.pixel_low =
      box.bottom - kChartFont - kTickGap - (x_label_.empty() ? 0 : kChartFont + kTickGap);
  y_ticks_ = y_.Ticks(38);
  double label_width = 0;
  for (const Tick& tick : y_ticks_) {
    label_width = std::max(label_width, TextWidth(tick.label, kChartFont));
  }
  x_.pixel_low = box.left + (y_label_.empty() ? 0 : kChartFont + kTickGap) + label_width + kTickGap;
  x_.pixel_high = box.right - kTickGap;
  x_ticks_ = x_.Ticks(75);
  for (size_t i = 0; i < series.size(); ++i) lines_.push_back(MakeLine(series[i], i));
  ShowCovered();
  for (Line& line : lines_) line.points = ReduceLine(line.points, 1.0);
}

void Chart::ShowCovered() {
  for (size_t i = 1; i < lines_.size(); ++i) {
    if (lines_[i].faint) continue;
    const auto covered = std::count_if(
        lines_.begin(), lines_.begin() + static_cast<std::ptrdiff_t>(i),
        [&](const Line& line) { return !line.faint && Coincide(line.points, lines_[i].points); });
    if (covered == 0) continue;
    const auto place = std::min(static_cast<size_t>(covered), std::size(kCovering)) - 1;
    lines_[i].look.dashes = kCovering[place];
    lines_[i].dot = kCoveringDots[place];
  }
}

Chart::Line Chart::MakeLine(const Series& series, size_t index) const {
  std::vector<PlotPoint> points(series.x.size());
  for (size_t i = 0; i < points.size(); ++i) {
    const bool shows = x_.Shows(series.x[i]) && y_.Shows(series.y[i]);
    points[i] = shows ? PlotPoint{x_.Pixel(series.x[i]), y_.Pixel(series.y[i])} : kGapPoint;
  }
  return {LookOf(series, index), series.faint, points.size() <= kDots && !series.faint,
          std::move(points)};
}

size_t Chart::points() const {
  size_t points = 0;
  for (const Line& line : lines_) points += line.points.size();
  return points;
}

void Chart::Reduce(double column) {
  for (Line& line : lines_) line.points = ReduceLine(line.points, column);
}

// Grid, tick labels, axis lines and names.
void Chart::DrawAxes(SvgWriter& svg) const {
  std::string grid;
  for (const Tick& tick : y_ticks_) {
    const double at = y_.Pixel(tick.value);
    grid +=
        fmt::format("M{} {}H{}", SvgNumber(x_.pixel_low), SvgNumber(at), SvgNumber(x_.pixel_high));
    svg.Text(tick.label, x_.pixel_low - kTickGap, at + kChartFont * 0.35,
             {.style = "muted", .anchor = "end"});
  }
  for (const Tick& tick : x_ticks_) {
    const double at = x_.Pixel(tick.value);
    grid +=
        fmt::format("M{} {}V{}", SvgNumber(at), SvgNumber(y_.pixel_low), SvgNumber(y_.pixel_high));
    const double half = TextWidth(tick.label, kChartFont) / 2;
    svg.Text(tick.label, std::clamp(at, box_.left + half, box_.right + kTickGap - half),
             y_.pixel_low + kTickGap + kChartFont * 0.8, {.style = "muted", .anchor = "middle"});
  }
  svg.Element("path", {{"class", "grid"}, {"fill", "none"}, {"d", grid}});
  svg.Element("path",
              {{"class", "axis"},
               {"fill", "none"},
               {"d", fmt::format("M{} {}V{}H{}", SvgNumber(x_.pixel_low), SvgNumber(y_.pixel_high),
                                 SvgNumber(y_.pixel_low), SvgNumber(x_.pixel_high))}});
  const double x_length = x_.pixel_high - x_.pixel_low, y_length = y_.pixel_low - y_.pixel_high;
  svg.Text(FitText(x_label_, kChartFont, x_length), x_.Middle(), box_.bottom + 2,
           {.anchor = "middle"});
  svg.Text(FitText(y_label_, kChartFont, y_length), box_.left + 4, y_.Middle(),
           {.anchor = "middle", .turned = true});
}

void Chart::DrawLine(SvgWriter& svg, const Line& line) const {
  const std::vector<PlotPoint>& points = line.points;
  PathData path, dots;
  bool pen_down = false;
  for (size_t i = 0; i < points.size(); ++i) {
    if (!IsFinite(points[i])) {
      pen_down = false;
      continue;
    }
    const bool alone = !pen_down && (i + 1 == points.size() || !IsFinite(points[i + 1]));
    if (pen_down) {
      path.LineTo(points[i]);
    } else {
      path.MoveTo(points[i]);
    }
    pen_down = true;
    if (alone || line.dotted) {
      dots.MoveTo(points[i]);
      dots.Dot();
    }
  }
  svg.Element("path", {{"class", line.look.classes},
                       {"stroke-width", line.look.width},
                       {"stroke-opacity", line.look.opacity},
                       {"stroke-dasharray", line.look.dashes},
                       {"d", path.text()}});
  if (dots.text().empty()) return;
  svg.Element("path", {{"class", line.look.classes},
                       {"stroke-width", line.look.width * line.dot},
                       {"stroke-opacity", line.look.opacity},
                       {"d", dots.text()}});
}

void Chart::Draw(SvgWriter& svg) const {
  DrawAxes(svg);
  if (!any_) {
    svg.Text("no data", x_.Middle(), y_.Middle() - kTickGap,
             {.style = "muted", .anchor = "middle"});
  }
  for (const bool faint : {true, false}) {
    for (const Line& line : lines_) {
      if (line.faint == faint) DrawLine(svg, line);
    }
  }
}

constexpr size_t kMaxPoints = 18000;  // of a figure, each at most some nine bytes

// Returns the range of x of all points that any of the panels can show.
XRange SharedX(std::span<const Panel> panels) {
  XRange range;
  for (const Panel& panel : panels) {
    for (const Series& series : panel.series) {
      for (size_t i = 0; i < std::min(series.x.size(), series.y.size()); ++i) {
        const double x = series.x[i], y = series.y[i];
        const bool shows = std::abs(x) <= 1e300 && std::abs(y) <= 1e300 &&
                           (x > 0 || !panel.options.log_x) && (y > 0 || !panel.options.log_y);
        if (shows) range.Hold(x);
      }
    }
  }
  return range;
}

// Draws charts, with no more points than keep a figure below 200 KB.
void DrawCharts(SvgWriter& svg, std::span<Chart> charts) {
  constexpr double kGrowth = 1.25, kWidest = 1e4;
  const auto points = [&] {
    size_t all = 0;
    for (const Chart& chart : charts) all += chart.points();
    return all;
  };
  for (double column = kGrowth; points() > kMaxPoints && column < kWidest; column *= kGrowth) {
    for (Chart& chart : charts) chart.Reduce(column);
  }
  for (const Chart& chart : charts) chart.Draw(svg);
}

// Sizes of a legend.
constexpr double kLegendRow = 20;   // height of a row
constexpr double kLegendLine = 20;  // length of an entry's line
constexpr double kSwatch = 26;      // that and its gap to the label
constexpr double kEntryGap = 16;    // between entries
constexpr double kMore = 80;        // room for "+ 99 more"

// The labelled lines of a figure, each label once, in rows.
class Legend {
 public:
  // Lays entries out in rows of at most `width`, and at most `max_rows`; the last entry then says
  // how many are left out.
  Legend(std::span<const Series> series, double width, int max_rows);

  double Height() const;                                // 0 if there is nothing
  void Draw(SvgWriter& svg, double x, double y) const;  // its top left corner

 private:
  struct Entry {
    std::string label;
    LineLook look;  // without classes: no line
    double x;
    int row;
  };

  std::vector<Entry> entries_;
};

Legend::Legend(std::span<const Series> series, double width, int max_rows) {
  double x = 0;
  int row = 0;
  size_t left_out = 0;
  for (size_t i = 0; i < series.size(); ++i) {
    if (series[i].label.empty()) continue;
    const std::string label = FitText(series[i].label, kChartFont, width - kSwatch - kMore);
    const double entry_width = kSwatch + TextWidth(label, kChartFont) + kEntryGap;
    const double limit = width - (row + 1 == max_rows ? kMore : 0);
    if (x > 0 && x + entry_width > limit && left_out == 0) {
      if (row + 1 < max_rows) {
        ++row;
        x = 0;
      } else {
        left_out = 1;
        continue;
      }
    }
    if (left_out > 0) {
      ++left_out;
      continue;
    }
    entries_.push_back({label, LookOf(series[i], i), x, row});
    x += entry_width;
  }
  if (left_out > 0) entries_.push_back({fmt::format("+ {} more", left_out), {}, x, row});
}

double Legend::Height() const {
  return entries_.empty() ? 0 : (entries_.back().row + 1) * kLegendRow;
}

void Legend::Draw(SvgWriter& svg, double x, double y) const {
  for (const Entry& entry : entries_) {
    const double left = x + entry.x, middle = y + entry.row * kLegendRow + kLegendRow / 2;
    double text_x = left;
    if (!entry.look.classes.empty()) {
      svg.Element("path", {{"class", entry.look.classes},
                           {"stroke-width", std::max(entry.look.width, 1.5)},
                           {"stroke-opacity", entry.look.opacity},
                           {"stroke-dasharray", entry.look.dashes},
                           {"d", fmt::format("M{} {}h{}", SvgNumber(left), SvgNumber(middle),
                                             SvgNumber(kLegendLine))}});
      text_x += kSwatch;
    }
    svg.Text(entry.label, text_x, middle + kChartFont * 0.35);
  }
}

// Sizes of a figure with one chart.
constexpr double kCurvesTitleFont = 16, kCurvesTitleHeight = 24;
constexpr double kAboveAxes = 12;  // above the axes
// Sizes of panels.
constexpr double kPanelFont = 13, kPanelTitle = 26;
constexpr double kBetweenPanels = 20;  // panels
constexpr int kLegendRows = 8;

// The first line of each label.
std::vector<Series> Labelled(std::span<const Panel> panels) {
  std::vector<Series> labelled;
  std::set<std::string> seen;
  for (const Panel& panel : panels) {
    for (size_t i = 0; i < panel.series.size(); ++i) {
      const Series& series = panel.series[i];
      if (series.label.empty() || !seen.insert(series.label).second) continue;
      labelled.push_back({.label = series.label,
                          .faint = series.faint,
                          .dashed = series.dashed,
                          .colour = series.colour < 0 ? static_cast<int>(i) : series.colour});
    }
  }
  return labelled;
}

void RequireSize(double width, double height) {
  if (width >= 200 && height >= 150) return;
  throw UsageError(fmt::format("a figure of {} x {} pixels is too small", width, height),
                   "curves and their labels need 200 x 150");
}

}  // namespace

std::string CurvesSvg(std::span<const Series> series, const CurvesOptions& options) {
  RequireSize(options.width, options.height);
  const double width = options.width - 2 * kFigureMargin;
  const double legend_top = kFigureMargin + (options.title.empty() ? 0 : kCurvesTitleHeight);
  const Legend legend(series, width,
                      std::max(1, static_cast<int>((options.height - 120) * 0.4 / kLegendRow)));
  Chart chart(series, options,
              {.left = kFigureMargin,
               .top = legend_top + legend.Height() + kAboveAxes,
               .right = options.width - kFigureMargin,
               .bottom = options.height - kFigureMargin});

  SvgWriter svg(options.width, options.height, options.title);
  if (!options.title.empty()) {
    svg.Text(FitText(options.title, kCurvesTitleFont * kBoldWidth, width), kFigureMargin,
             kFigureMargin + kCurvesTitleFont * 0.8, {.font = kCurvesTitleFont, .bold = true});
  }
  legend.Draw(svg, kFigureMargin, legend_top);
  DrawCharts(svg, {&chart, 1});
  return std::move(svg).Finish();
}

std::string PanelsSvg(std::span<const Panel> panels, const PanelsOptions& options) {
  if (options.columns < 1) throw UsageError("panels need a column");
  RequireSize(options.panel_width, options.panel_height);
  const int count = std::max(1, static_cast<int>(panels.size()));
  const int columns = std::min(options.columns, count), rows = (count + columns - 1) / columns;
  const double inside = columns * (options.panel_width + kBetweenPanels) - kBetweenPanels;
  const std::vector<std::string> notes(options.note.empty() ? 0 : 1, options.note);
  const Heading heading(options.title, notes, inside);
  const Legend legend(Labelled(panels), inside, kLegendRows);
  const double top = kFigureMargin + heading.Height() + legend.Height() +
                     (legend.Height() > 0 ? kBetweenPanels / 2 : 0);

  SvgWriter svg(
      inside + 2 * kFigureMargin,
      top + rows * (options.panel_height + kBetweenPanels) - kBetweenPanels + kFigureMargin,
      options.title);
  heading.Draw(svg, kFigureMargin, kFigureMargin);
  legend.Draw(svg, kFigureMargin, kFigureMargin + heading.Height());
  std::vector<Chart> charts;
  const XRange x_range = SharedX(panels);
  for (size_t i = 0; i < panels.size(); ++i) {
    const int row = static_cast<int>(i) / columns, column = static_cast<int>(i) % columns;
    const double left = kFigureMargin + column * (options.panel_width + kBetweenPanels);
    const double panel_top = top + row * (options.panel_height + kBetweenPanels);
    svg.Text(FitText(panels[i].options.title, kPanelFont * kBoldWidth, options.panel_width), left,
             panel_top + kPanelFont, {.font = kPanelFont, .bold = true});
    charts.emplace_back(panels[i].series, panels[i].options,
                        ChartBox{.left = left,
                                 .top = panel_top + kPanelTitle,
                                 .right = left + options.panel_width,
                                 .bottom = panel_top + options.panel_height},
                        x_range);
  }
  DrawCharts(svg, charts);
  return std::move(svg).Finish();
}

}  // namespace folio
