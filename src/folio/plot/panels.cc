#include "folio/plot/panels.h"

#include <algorithm>
#include <set>

#include "folio/base/check.h"
#include "folio/plot/chart.h"
#include "folio/plot/heading.h"
#include "folio/plot/legend.h"
#include "folio/plot/svg.h"

namespace folio {
namespace {

constexpr double kTitleFont = 13, kBold = 1.15;
constexpr double kTitleHeight = 26;  // of a panel
constexpr double kBetween = 20;      // panels
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

}  // namespace

std::string PanelsSvg(std::span<const Panel> panels, const PanelsOptions& options) {
  FOLIO_CHECK(options.columns >= 1, "panels need a column");
  FOLIO_CHECK(options.panel_width >= 200 && options.panel_height >= 150, "panels are too small");
  const int count = std::max(1, static_cast<int>(panels.size()));
  const int columns = std::min(options.columns, count), rows = (count + columns - 1) / columns;
  const double inside = columns * (options.panel_width + kBetween) - kBetween;
  const std::vector<std::string> notes(options.note.empty() ? 0 : 1, options.note);
  const Heading heading(options.title, notes, inside);
  const Legend legend(Labelled(panels), inside, kLegendRows);
  const double top =
      kFigureMargin + heading.Height() + legend.Height() + (legend.Height() > 0 ? kBetween / 2 : 0);

  SvgWriter svg(inside + 2 * kFigureMargin,
                top + rows * (options.panel_height + kBetween) - kBetween + kFigureMargin,
                options.title);
  heading.Draw(svg, kFigureMargin, kFigureMargin);
  legend.Draw(svg, kFigureMargin, kFigureMargin + heading.Height());
  std::vector<Chart> charts;
  for (size_t i = 0; i < panels.size(); ++i) {
    const int row = static_cast<int>(i) / columns, column = static_cast<int>(i) % columns;
    const double left = kFigureMargin + column * (options.panel_width + kBetween);
    const double panel_top = top + row * (options.panel_height + kBetween);
    svg.Text(FitText(panels[i].options.title, kTitleFont * kBold, options.panel_width),
             {{"class", "ink"},
              {"x", left},
              {"y", panel_top + kTitleFont},
              {"font-size", kTitleFont},
              {"font-weight", "600"}});
    charts.emplace_back(panels[i].series, panels[i].options,
                        Box{.left = left,
                            .top = panel_top + kTitleHeight,
                            .right = left + options.panel_width,
                            .bottom = panel_top + options.panel_height});
  }
  DrawCharts(svg, charts);
  return std::move(svg).Finish();
}

}  // namespace folio
