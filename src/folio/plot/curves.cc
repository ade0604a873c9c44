#include "folio/plot/curves.h"

#include <algorithm>

#include "folio/base/check.h"
#include "folio/plot/chart.h"
#include "folio/plot/heading.h"
#include "folio/plot/legend.h"
#include "folio/plot/svg.h"

namespace folio {
namespace {

constexpr double kTitleFont = 16, kBold = 1.15;
constexpr double kTitleHeight = 24;
constexpr double kLegendRow = 20;
constexpr double kSpace = 12;  // above the axes

}  // namespace

std::string CurvesSvg(std::span<const Series> series, const CurvesOptions& options) {
  FOLIO_CHECK(options.width >= 200 && options.height >= 150, "the figure is too small");
  const double width = options.width - 2 * kFigureMargin;
  const double legend_top = kFigureMargin + (options.title.empty() ? 0 : kTitleHeight);
  const Legend legend(series, width,
                      std::max(1, static_cast<int>((options.height - 120) * 0.4 / kLegendRow)));
  Chart chart(series, options,
              {.left = kFigureMargin,
               .top = legend_top + legend.Height() + kSpace,
               .right = options.width - kFigureMargin,
               .bottom = options.height - kFigureMargin});

  SvgWriter svg(options.width, options.height, options.title);
  if (!options.title.empty()) {
    svg.Text(FitText(options.title, kTitleFont * kBold, width),
             {{"class", "ink"},
              {"x", kFigureMargin},
              {"y", kFigureMargin + kTitleFont * 0.8},
              {"font-size", kTitleFont},
              {"font-weight", "600"}});
  }
  legend.Draw(svg, kFigureMargin, legend_top);
  DrawCharts(svg, {&chart, 1});
  return std::move(svg).Finish();
}

}  // namespace folio
