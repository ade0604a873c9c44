#include "folio/plot/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "folio/base/error.h"
#include "folio/plot/chart.h"
#include "folio/plot/svg.h"

namespace folio {
namespace {

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
