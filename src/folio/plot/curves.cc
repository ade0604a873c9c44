#include "folio/plot/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/plot/svg.h"

namespace folio {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kChartFont = 12;
constexpr double kTickGap = 8;  // between tick labels and the axes

bool IsFinite(const PlotPoint& point) {
  return std::isfinite(point.x) && std::isfinite(point.y);
}

// Converts values to pixels.
struct Axis {
  bool log = false;
  bool whole = false;                         // all data are whole numbers, and so are the ticks
  double low = kInfinity, high = -kInfinity;  // of the data; logarithms if log
  double pixel_low = 0, pixel_high = 1;       // where these are drawn

  double Scaled(double value) const { return log ? std::log10(value) : value; }
  // Not so large that a padded range would overflow, either.
  bool Shows(double value) const { return std::abs(Scaled(value)) <= (log ? 300 : 1e300); }
  void Hold(double value) {
    low = std::min(low, Scaled(value));
    high = std::max(high, Scaled(value));
  }
  // Widens the range at both ends by a fraction of it; an empty range becomes one around its value,
  // and without values it is from 0 to 1.
  void Pad(double share) {
    if (low > high) {
      low = 0;
      high = 1;
    }
    const double size = std::max(std::abs(low), std::abs(high));
    double padding = (high - low) * share;
    if (high - low <= std::max(size * 1e-10, 1e-290)) {
      padding = log || size < 1e-280 ? 0.5 : size * 0.1;
    }
    low -= padding;
    high += padding;
  }
  double Pixel(double value) const {
    return pixel_low + (Scaled(value) - low) / (high - low) * (pixel_high - pixel_low);
  }
  double Middle() const { return (pixel_low + pixel_high) / 2; }
  std::vector<Tick> Ticks(double pixels_each) const {
    int count = std::max(2, static_cast<int>(std::abs(pixel_high - pixel_low) / pixels_each));
    if (whole) count = std::clamp(static_cast<int>(std::min(high - low, 1e6)), 1, count);
    if (!log) return LinearTicks(low, high, count);
    return LogTicks(std::pow(10.0, std::max(low, -305.0)), std::pow(10.0, std::min(high, 305.0)),
                    count);
  }
};

// The box of a chart, in pixels.
struct ChartBox {
  double left = 0, top = 0, right = 0, bottom = 0;
};

// A pair of axes with their names.
struct Axes {
  Axis x = {}, y = {};
  std::string x_label = {}, y_label = {};
  ChartBox box = {};
  std::vector<Tick> x_ticks = {}, y_ticks = {};

  // Fits the axes, whose ranges are padded, into a box with their labels.
  void Place(const ChartBox& inside) {
    box = inside;
    y.pixel_high = box.top;
    y.pixel_low =
        box.bottom - kChartFont - kTickGap - (x_label.empty() ? 0 : kChartFont + kTickGap);
    y_ticks = y.Ticks(38);
    double widest = 0;
    for (const Tick& tick : y_ticks) widest = std::max(widest, TextWidth(tick.label, kChartFont));
    x.pixel_low = box.left + (y_label.empty() ? 0 : kChartFont + kTickGap) + widest + kTickGap;
    x.pixel_high = box.right - kTickGap;
    x_ticks = x.Ticks(75);
  }

  // Draws grid, tick labels, axis lines and names.
  void Draw(SvgWriter& svg) const {
    std::string grid;
    for (const Tick& tick : y_ticks) {
      const double at = y.Pixel(tick.value);
      grid +=
          fmt::format("M{} {}H{}", SvgNumber(x.pixel_low), SvgNumber(at), SvgNumber(x.pixel_high));
      svg.Text(tick.label, x.pixel_low - kTickGap, at + kChartFont * 0.35,
               {.style = "muted", .anchor = "end"});
    }
    for (const Tick& tick : x_ticks) {
      const double at = x.Pixel(tick.value);
      grid +=
          fmt::format("M{} {}V{}", SvgNumber(at), SvgNumber(y.pixel_low), SvgNumber(y.pixel_high));
      const double half = TextWidth(tick.label, kChartFont) / 2;
      svg.Text(tick.label, std::clamp(at, box.left + half, box.right + kTickGap - half),
               y.pixel_low + kTickGap + kChartFont * 0.8, {.style = "muted", .anchor = "middle"});
    }
    svg.Element("path", {{"class", "grid"}, {"fill", "none"}, {"d", grid}});
    svg.Element("path",
                {{"class", "axis"},
                 {"fill", "none"},
                 {"d", fmt::format("M{} {}V{}H{}", SvgNumber(x.pixel_low), SvgNumber(y.pixel_high),
                                   SvgNumber(y.pixel_low), SvgNumber(x.pixel_high))}});
    svg.Text(FitText(x_label, kChartFont, x.pixel_high - x.pixel_low), x.Middle(), box.bottom + 2,
             {.anchor = "middle"});
    svg.Text(FitText(y_label, kChartFont, y.pixel_low - y.pixel_high), box.left + 4, y.Middle(),
             {.anchor = "middle", .turned = true});
  }

  void DrawNoData(SvgWriter& svg) const {
    svg.Text("no data", x.Middle(), y.Middle() - kTickGap, {.style = "muted", .anchor = "middle"});
  }
};

// ---- Lines --------------------------------------------------------------------------------------

// The look of a line: classes, dash pattern ("none" without), and so on.
struct LineLook {
  std::string classes, dashes = "none";
  double opacity = 1, width = 1;
};

// The look of the line at `index` of a list.
LineLook LookOf(const Series& series, size_t index) {
  static constexpr std::array kDashes = {"none", "7 4", "2 4", "10 3 2 3"};
  const size_t place = series.colour < 0 ? index : static_cast<size_t>(series.colour);
  const size_t round = place / kSeriesColours + (series.dashed ? 1 : 0);
  return {fmt::format("line s{}", place % kSeriesColours), kDashes[round % kDashes.size()],
          series.faint ? 0.4 : 1.0, series.faint ? 1.0 : 1.8};
}

// Path data with one decimal, each point relative to the one before.
class PathData {
 public:
  void MoveTo(const PlotPoint& to) {
    x_ = std::llround(to.x * 10);
    y_ = std::llround(to.y * 10);
    data_ += fmt::format("M{} {}", SvgNumber(static_cast<double>(x_) / 10),
                         SvgNumber(static_cast<double>(y_) / 10));
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

// Returns true if one line would hide the other over their common length: nearly all of their
// points are equal.
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

struct Line {
  LineLook look;
  bool faint, dotted;
  std::vector<PlotPoint> points;
  double dot = 3;  // by its width

  void Draw(SvgWriter& svg) const {
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
      if (alone || dotted) {
        dots.MoveTo(points[i]);
        dots.Dot();
      }
    }
    svg.Element("path", {{"class", look.classes},
                         {"stroke-width", look.width},
                         {"stroke-opacity", look.opacity},
                         {"stroke-dasharray", look.dashes},
                         {"d", path.text()}});
    if (dots.text().empty()) return;
    svg.Element("path", {{"class", look.classes},
                         {"stroke-width", look.width * dot},
                         {"stroke-opacity", look.opacity},
                         {"d", dots.text()}});
  }
};

// One pair of axes with its lines as a part of a figure, without title and legend.
class Chart {
 public:
  // The whole chart including labels lies inside of `box`. Title and size of `options` are ignored.
  // The x axis includes `shared_x` too, if that holds anything.
  Chart(std::span<const Series> series, const CurvesOptions& options, const ChartBox& box,
        const Axis& shared_x = {})
      : axes_{.x = {.log = options.log_x, .whole = !options.log_x},
              .y = {.log = options.log_y},
              .x_label = options.x_label,
              .y_label = options.y_label} {
    Axis &x = axes_.x, &y = axes_.y;
    for (const Series& s : series) {
      if (s.x.size() != s.y.size()) {
        throw UsageError(fmt::format("the curve '{}' has no y for each x", s.label),
                         fmt::format("there are {} and {}", s.x.size(), s.y.size()));
      }
      for (size_t i = 0; i < s.x.size(); ++i) {
        if (!x.Shows(s.x[i]) || !y.Shows(s.y[i])) continue;
        x.Hold(s.x[i]);
        y.Hold(s.y[i]);
        x.whole = x.whole && s.x[i] == std::floor(s.x[i]);
      }
    }
    any_ = x.low <= x.high;
    if (any_ && shared_x.low <= shared_x.high) {
      x.Hold(shared_x.low);
      x.Hold(shared_x.high);
    }
    x.Pad(0);
    y.Pad(0.04);
    axes_.Place(box);
    for (size_t i = 0; i < series.size(); ++i) lines_.push_back(MakeLine(series[i], i));
    ShowCovered();
    Reduce(1);
  }

  // The number of points that are drawn.
  size_t points() const {
    size_t points = 0;
    for (const Line& line : lines_) points += line.points.size();
    return points;
  }
  // Merges points within columns of this many pixels.
  void Reduce(double column) {
    for (Line& line : lines_) line.points = ReduceLine(line.points, column);
  }
  void Draw(SvgWriter& svg) const {
    axes_.Draw(svg);
    if (!any_) axes_.DrawNoData(svg);
    for (const bool faint : {true, false}) {
      for (const Line& line : lines_) {
        if (line.faint == faint) line.Draw(svg);
      }
    }
  }

 private:
  Line MakeLine(const Series& series, size_t index) const {
    constexpr size_t kDots = 60;  // series of at most this many points show them as dots
    std::vector<PlotPoint> points;
    for (size_t i = 0; i < series.x.size(); ++i) {
      const bool shows = axes_.x.Shows(series.x[i]) && axes_.y.Shows(series.y[i]);
      points.push_back(shows ? PlotPoint{axes_.x.Pixel(series.x[i]), axes_.y.Pixel(series.y[i])}
                             : PlotPoint{kNan, kNan});
    }
    return {LookOf(series, index), series.faint, points.size() <= kDots && !series.faint,
            std::move(points)};
  }

  // Dashes lines that would hide others: the first, second, ... that covers others lets some of the
  // lower ones show through.
  void ShowCovered() {
    constexpr std::array kCovering = {"8 8", "4 12", "2 14"};
    constexpr double kDots[] = {2, 1.4, 1};
    for (size_t i = 1; i < lines_.size(); ++i) {
      if (lines_[i].faint) continue;
      const auto covered = std::count_if(
          lines_.begin(), lines_.begin() + static_cast<std::ptrdiff_t>(i),
          [&](const Line& line) { return !line.faint && Coincide(line.points, lines_[i].points); });
      if (covered == 0) continue;
      const auto place = std::min(static_cast<size_t>(covered), kCovering.size()) - 1;
      lines_[i].look.dashes = kCovering[place];
      lines_[i].dot = kDots[place];
    }
  }

  Axes axes_;
  std::vector<Line> lines_;
  bool any_ = false;  // true if anything is visible
};

// Draws charts, with so few points of at most about nine bytes that a figure stays below 200 KB.
void DrawCharts(SvgWriter& svg, std::span<Chart> charts) {
  constexpr size_t kMaxPoints = 18000;
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

// Returns the x range of all visible points of the panels.
Axis SharedX(std::span<const Panel> panels) {
  Axis range;
  for (const Panel& panel : panels) {
    const Axis x{.log = panel.options.log_x}, y{.log = panel.options.log_y};
    for (const Series& series : panel.series) {
      for (size_t i = 0; i < std::min(series.x.size(), series.y.size()); ++i) {
        if (x.Shows(series.x[i]) && y.Shows(series.y[i])) range.Hold(series.x[i]);
      }
    }
  }
  return range;
}

// ---- Legends and figures ------------------------------------------------------------------------

constexpr double kLegendRow = 20;  // height of a row

// Names of lines or dots, arranged in rows.
class Legend {
 public:
  struct Entry {
    std::string label;
    LineLook look = {};  // without classes: no line
    double x = 0;
    int row = 0;
  };

  // Arranges entries in rows of at most `width`, and at most `max_rows`; the last entry then says
  // how many are left out.
  Legend(std::vector<Entry> entries, double width, int max_rows) {
    constexpr double kEntryGap = 16;
    constexpr double kMore = 80;  // room for "+ 99 more"
    double x = 0;
    int row = 0;
    while (entries_.size() < entries.size()) {
      Entry& entry = entries[entries_.size()];
      entry.label = FitText(entry.label, kChartFont, width - kSwatch - kMore);
      const double entry_width = kSwatch + TextWidth(entry.label, kChartFont) + kEntryGap;
      if (x > 0 && x + entry_width > width - (row + 1 == max_rows ? kMore : 0)) {
        if (++row == max_rows) break;
        x = 0;
      }
      entry.x = x;
      entry.row = row;
      entries_.push_back(std::move(entry));
      x += entry_width;
    }
    const size_t left_out = entries.size() - entries_.size();
    if (left_out == 0) return;
    entries_.push_back({fmt::format("+ {} more", left_out), {.classes = ""}, x, max_rows - 1});
  }

  double Height() const {  // 0 if there is nothing
    return entries_.empty() ? 0 : (entries_.back().row + 1) * kLegendRow;
  }
  // Draws it from its top left corner, with lines of `length` pixels; 0 means dots.
  void Draw(SvgWriter& svg, double x, double y, double length = 20) const {
    for (const Entry& entry : entries_) {
      const double left = x + entry.x, middle = y + entry.row * kLegendRow + kLegendRow / 2;
      double text_x = left;
      if (!entry.look.classes.empty()) {
        svg.Element("path", {{"class", entry.look.classes},
                             {"stroke-width", std::max(entry.look.width, 1.5)},
                             {"stroke-opacity", entry.look.opacity},
                             {"stroke-dasharray", entry.look.dashes},
                             {"d", fmt::format("M{} {}h{}", SvgNumber(left + (20 - length) / 2),
                                               SvgNumber(middle), SvgNumber(length))}});
        text_x += kSwatch;
      }
      svg.Text(entry.label, text_x, middle + kChartFont * 0.35);
    }
  }

 private:
  static constexpr double kSwatch = 26;  // a line and the gap to its label

  std::vector<Entry> entries_;
};

void AddEntries(std::span<const Series> series, std::vector<Legend::Entry>& entries) {
  for (size_t i = 0; i < series.size(); ++i) {
    if (!series[i].label.empty()) entries.push_back({series[i].label, LookOf(series[i], i)});
  }
}

void RequireSize(double width, double height) {
  if (width >= 200 && height >= 150) return;
  throw UsageError(fmt::format("a figure of {} x {} pixels is too small", width, height),
                   "curves and their labels need 200 x 150");
}

// ---- Points -------------------------------------------------------------------------------------

constexpr double kDotFont = 11;
constexpr double kDot = 5;  // diameter

bool Shows(const ScatterPoint& point) {
  return Axis().Shows(point.x) && Axis().Shows(point.y);
}

// Records which small squares of the figure are occupied.
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

// A dot and a name for each colour that has a name and a point.
std::vector<Legend::Entry> GroupEntries(std::span<const ScatterPoint> points,
                                        const std::vector<std::string>& groups) {
  std::vector<Legend::Entry> entries;
  for (size_t group = 0; group < groups.size(); ++group) {
    const auto of_it = [&](const ScatterPoint& point) {
      return std::cmp_equal(point.colour, group) && Shows(point);
    };
    if (std::ranges::none_of(points, of_it)) continue;
    const std::string classes = fmt::format("line s{}", group % kSeriesColours);
    entries.push_back({groups[group], {.classes = classes, .width = kDot + 2}});
  }
  return entries;
}

void DrawPoints(SvgWriter& svg, std::span<const ScatterPoint> points, const Axes& axes,
                double diameter) {
  std::array<std::string, kSeriesColours> dots;
  for (const ScatterPoint& point : points) {
    if (!Shows(point)) continue;
    dots[static_cast<size_t>(point.colour % kSeriesColours)] +=
        fmt::format("M{:.1f} {:.1f}h0", axes.x.Pixel(point.x), axes.y.Pixel(point.y));
  }
  for (size_t i = 0; i < dots.size(); ++i) {
    if (dots[i].empty()) continue;
    svg.Element("path", {{"class", fmt::format("line s{}", i)},
                         {"stroke-width", diameter},
                         {"stroke-opacity", diameter == kDot ? 0.9 : 0.6},
                         {"d", dots[i]}});
  }
}

// Shades small squares by the square root of the number of the cloud's points in them.
void DrawCloud(SvgWriter& svg, std::span<const ScatterPoint> cloud, const Axes& axes) {
  constexpr double kSquare = 6, kFaintest = 0.25, kDensest = 0.8;
  std::map<std::pair<int64_t, int64_t>, int64_t> counts;
  int64_t most = 1;
  for (const ScatterPoint& point : cloud) {
    if (!Shows(point)) continue;
    const std::pair square = {static_cast<int64_t>(axes.x.Pixel(point.x) / kSquare),
                              static_cast<int64_t>(axes.y.Pixel(point.y) / kSquare)};
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

// Puts labels right, left, above or below their points, wherever they cover no point and no label.
void DrawLabels(SvgWriter& svg, std::span<const ScatterPoint> points, const Axes& axes,
                double diameter, Occupancy& occupancy) {
  const Axis &x = axes.x, &y = axes.y;
  const double r = diameter / 2;
  for (const ScatterPoint& point : points) {
    if (!Shows(point)) continue;
    occupancy.Take(x.Pixel(point.x) - r, y.Pixel(point.y) - r, diameter, diameter);
  }
  const double height = kDotFont * 1.25, away = r + 3;
  for (const ScatterPoint& point : points) {
    if (!Shows(point) || point.label.empty()) continue;
    const std::string label = FitText(point.label, kDotFont, 140);
    const double width = TextWidth(label, kDotFont);
    const double px = x.Pixel(point.x), py = y.Pixel(point.y);
    struct Place {
      const char* anchor;
      double at, left, top;
    };
    for (const auto& [anchor, at, left, top] :
         {Place{"start", px + away, px + away, py - height / 2},
          Place{"end", px - away, px - away - width, py - height / 2},
          Place{"middle", px, px - width / 2, py - away - height},
          Place{"middle", px, px - width / 2, py + away}}) {
      const bool inside = left > x.pixel_low && left + width < x.pixel_high && top > y.pixel_high &&
                          top + height < y.pixel_low;
      if (!inside || !occupancy.Free(left, top, width, height)) continue;
      occupancy.Take(left, top, width, height);
      svg.Text(label, at, top + kDotFont, {.font = kDotFont, .anchor = anchor});
      break;
    }
  }
}

// ---- Bars ---------------------------------------------------------------------------------------

constexpr double kBarRow = 22, kBar = 14, kBarGap = 8;

std::string NoteOf(const Bar& bar) {
  if (!bar.note.empty()) return bar.note;
  if (!std::isfinite(bar.value)) return "not finite";
  const std::string digits = fmt::format("{:.4g}", std::abs(bar.value));
  return bar.value < 0 ? "\xE2\x88\x92" + digits : digits;
}

// The value to draw: 0 if it is not finite.
double DrawnValue(const Bar& bar) {
  return std::isfinite(bar.value) ? std::clamp(bar.value, -1e300, 1e300) : 0;
}

// Lines behind the bars, from `top` downward, with numbers below them.
void DrawTicks(SvgWriter& svg, std::span<const Tick> ticks, const Axis& x, double top,
               double rows) {
  constexpr double kTickFont = 11;
  std::string grid;
  for (const Tick& tick : ticks) {
    const double at = x.Pixel(tick.value);
    grid += fmt::format("M{} {}v{}", SvgNumber(at), SvgNumber(top), SvgNumber(rows));
    svg.Text(tick.label, at, top + rows + kTickFont + 4,
             {.style = "muted", .font = kTickFont, .anchor = "middle"});
  }
  svg.Element("path", {{"class", "grid"}, {"d", grid}});
}

// ---- Reduced lines ------------------------------------------------------------------------------

// Appends the visible points of one group.
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
  for (const size_t i : {first, std::min(low, high), std::max(low, high), last}) {
    if (i != kNone && i != previous) out.push_back(group[i]);
    previous = i;
  }
  const bool ends_in_gap = last == kNone || last + 1 < group.size();
  if (ends_in_gap && !out.empty() && IsFinite(out.back())) out.push_back({kNan, kNan});
}

}  // namespace

std::string CurvesSvg(std::span<const Series> series, const CurvesOptions& options) {
  constexpr double kTitleFont = 16, kTitleHeight = 24, kAboveAxes = 12;
  RequireSize(options.width, options.height);
  const double width = options.width - 2 * kFigureMargin;
  const double legend_top = kFigureMargin + (options.title.empty() ? 0 : kTitleHeight);
  std::vector<Legend::Entry> entries;
  AddEntries(series, entries);
  const Legend legend(std::move(entries), width,
                      std::max(1, static_cast<int>((options.height - 120) * 0.4 / kLegendRow)));
  Chart chart(series, options,
              {.left = kFigureMargin,
               .top = legend_top + legend.Height() + kAboveAxes,
               .right = options.width - kFigureMargin,
               .bottom = options.height - kFigureMargin});

  SvgWriter svg(options.width, options.height, options.title);
  if (!options.title.empty()) {
    svg.Text(FitText(options.title, kTitleFont * kBoldWidth, width), kFigureMargin,
             kFigureMargin + kTitleFont * 0.8, {.font = kTitleFont, .bold = true});
  }
  legend.Draw(svg, kFigureMargin, legend_top);
  DrawCharts(svg, {&chart, 1});
  return std::move(svg).Finish();
}

std::string PanelsSvg(std::span<const Panel> panels, const PanelsOptions& options) {
  constexpr double kTitleFont = 13, kTitleHeight = 26, kBetween = 20;
  constexpr int kLegendRows = 8;
  if (options.columns < 1) throw UsageError("panels need a column");
  RequireSize(options.panel_width, options.panel_height);
  const int count = std::max(1, static_cast<int>(panels.size()));
  const int columns = std::min(options.columns, count), rows = (count + columns - 1) / columns;
  const double inside = columns * (options.panel_width + kBetween) - kBetween;
  const std::vector<std::string> notes(options.note.empty() ? 0 : 1, options.note);
  const Heading heading(options.title, notes, inside);
  std::vector<Legend::Entry> entries;
  for (const Panel& panel : panels) AddEntries(panel.series, entries);
  std::set<std::string> seen;  // each label only once
  std::erase_if(entries, [&](const Legend::Entry& e) { return !seen.insert(e.label).second; });
  const Legend legend(std::move(entries), inside, kLegendRows);
  const double top =
      kFigureMargin + heading.Height() + legend.Height() + (legend.Height() > 0 ? kBetween / 2 : 0);

  SvgWriter svg(inside + 2 * kFigureMargin,
                top + rows * (options.panel_height + kBetween) - kBetween + kFigureMargin,
                options.title);
  heading.Draw(svg, kFigureMargin, kFigureMargin);
  legend.Draw(svg, kFigureMargin, kFigureMargin + heading.Height());
  std::vector<Chart> charts;
  const Axis shared_x = SharedX(panels);
  for (size_t i = 0; i < panels.size(); ++i) {
    const int row = static_cast<int>(i) / columns, column = static_cast<int>(i) % columns;
    const double left = kFigureMargin + column * (options.panel_width + kBetween);
    const double panel_top = top + row * (options.panel_height + kBetween);
    svg.Text(FitText(panels[i].options.title, kTitleFont * kBoldWidth, options.panel_width), left,
             panel_top + kTitleFont, {.font = kTitleFont, .bold = true});
    charts.emplace_back(panels[i].series, panels[i].options,
                        ChartBox{.left = left,
                                 .top = panel_top + kTitleHeight,
                                 .right = left + options.panel_width,
                                 .bottom = panel_top + options.panel_height},
                        shared_x);
  }
  DrawCharts(svg, charts);
  return std::move(svg).Finish();
}

std::string ScatterSvg(std::span<const ScatterPoint> points, const ScatterOptions& options) {
  constexpr size_t kMany = 500;  // from this many points on they are smaller
  RequireSize(options.width, options.height);
  for (const ScatterPoint& point : points) FOLIO_CHECK(point.colour >= 0, "no such colour");
  const double inside = options.width - 2 * kFigureMargin;
  const Heading heading(options.title, {}, inside);
  const Legend legend(GroupEntries(points, options.groups), inside, 8);
  const double legend_top = kFigureMargin + heading.Height();
  Axes axes{.x_label = options.x_label, .y_label = options.y_label};
  for (const std::span<const ScatterPoint> some : {points, std::span(options.cloud)}) {
    for (const ScatterPoint& point : some) {
      if (!Shows(point)) continue;
      axes.x.Hold(point.x);
      axes.y.Hold(point.y);
    }
  }
  axes.x.Pad(0.04);
  axes.y.Pad(0.04);
  axes.Place({.left = kFigureMargin,
              .top = legend_top + legend.Height(),
              .right = options.width - kFigureMargin,
              .bottom = options.height - kFigureMargin});

  SvgWriter svg(options.width, options.height, options.title.empty() ? "points" : options.title);
  heading.Draw(svg, kFigureMargin, kFigureMargin);
  legend.Draw(svg, kFigureMargin, legend_top, /*length=*/0);
  DrawCloud(svg, options.cloud, axes);
  axes.Draw(svg);
  if (std::ranges::none_of(points, Shows)) {
    axes.DrawNoData(svg);
    return std::move(svg).Finish();
  }
  const double diameter = points.size() > kMany ? 3.2 : kDot;
  DrawPoints(svg, points, axes, diameter);
  Occupancy occupancy(options.width, options.height);
  DrawLabels(svg, points, axes, diameter, occupancy);
  return std::move(svg).Finish();
}

std::string BarsSvg(std::span<const Bar> bars, const BarsOptions& options) {
  constexpr double kTickRow = 20, kTickApart = 80, kLeastPlot = 60, kLeastWidth = 240;
  const double least_width = std::max(options.width, kLeastWidth);
  Axis x{.low = 0, .high = 0};
  double label_width = 0, note_width = 0;
  for (const Bar& bar : bars) {
    label_width = std::max(label_width, TextWidth(bar.label, kChartFont));
    note_width = std::max(note_width, TextWidth(NoteOf(bar), kChartFont));
    x.Hold(DrawnValue(bar));
  }
  label_width = std::min(label_width, least_width * 0.35);
  note_width = std::min(note_width, least_width * 0.25);
  const double notes_left = x.low < 0 ? note_width + kBarGap : 0;
  x.pixel_low = kFigureMargin + label_width + kBarGap + notes_left;
  x.pixel_high =
      std::max(least_width - kFigureMargin - kBarGap - note_width, x.pixel_low + kLeastPlot);
  if (options.full > 0) {
    x.high = std::min(options.full, 1e300);
    if (x.low < 0) x.low = -x.high;
  }
  std::vector<Tick> ticks;
  if (x.high - x.low > 2e-300 && x.high - x.low < 2e300) {
    const auto count = static_cast<int>((x.pixel_high - x.pixel_low) / kTickApart);
    ticks = LinearTicks(x.low, x.high, std::clamp(count, 1, 5));
  } else if (x.low == x.high) {
    x.high = 1;
  }
  const Heading heading(options.title, {}, least_width - 2 * kFigureMargin);
  const double width = std::max(least_width, x.pixel_high + kBarGap + note_width + kFigureMargin);
  const double top = kFigureMargin + heading.Height();
  const double rows = static_cast<double>(std::max<size_t>(bars.size(), 1)) * kBarRow;
  SvgWriter svg(std::ceil(width), top + rows + (ticks.empty() ? 0 : kTickRow) + kFigureMargin,
                options.title.empty() ? "bars" : options.title);
  heading.Draw(svg, kFigureMargin, kFigureMargin);
  if (bars.empty()) {
    svg.Text("no data", kFigureMargin, top + kBarRow * 0.7, {.style = "muted"});
    return std::move(svg).Finish();
  }
  if (!ticks.empty()) DrawTicks(svg, ticks, x, top, rows);
  const double zero = x.Pixel(0);
  double y = top;
  for (const Bar& bar : bars) {
    const double base = y + kBarRow / 2 + kChartFont * 0.35;
    const double end = std::clamp(x.Pixel(DrawnValue(bar)), x.pixel_low, x.pixel_high);
    const bool left = DrawnValue(bar) < 0;
    svg.Text(FitText(bar.label, kChartFont, label_width), kFigureMargin + label_width, base,
             {.style = bar.muted ? "muted" : "ink", .anchor = "end"});
    svg.Rect(bar.muted ? "off"
             : left    ? "minus"
                       : "plus",
             {std::min(zero, end), y + (kBarRow - kBar) / 2, std::abs(end - zero), kBar});
    svg.Text(FitText(NoteOf(bar), kChartFont, note_width), end + (left ? -kBarGap : kBarGap), base,
             {.style = "muted", .anchor = left ? "end" : "start"});
    y += kBarRow;
  }
  svg.Element("path",
              {{"class", "axis"},
               {"d", fmt::format("M{} {}v{}", SvgNumber(zero), SvgNumber(top), SvgNumber(rows))}});
  return std::move(svg).Finish();
}

std::vector<double> Smooth(std::span<const double> y, double weight) {
  FOLIO_CHECK(0 <= weight && weight < 1, "the weight of the past is in [0,1)");
  std::vector<double> smooth(y.begin(), y.end());
  double sum = 0, total = 0;  // sums of weighted values and of weights
  for (double& value : smooth) {
    if (!std::isfinite(value)) continue;
    sum = weight * sum + (1 - weight) * value;
    total = weight * total + (1 - weight);
    value = sum / total;
  }
  return smooth;
}

std::vector<PlotPoint> ReduceLine(std::span<const PlotPoint> points, double column) {
  constexpr size_t kMaxGroups = 4000;
  FOLIO_CHECK(column > 0, "columns need a width");
  double last = -kInfinity;
  bool grows = true;
  for (const PlotPoint& point : points) {
    if (!IsFinite(point)) continue;
    grows = grows && point.x >= last;
    last = point.x;
  }
  const size_t min_group = grows ? 1 : points.size() / kMaxGroups + 1;
  std::vector<PlotPoint> out;
  for (size_t begin = 0; begin < points.size();) {
    double place = kNan;  // the group's column, once known
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
