#include <gtest/gtest.h>

#include <set>

#include "folio/base/rng.h"
#include "folio/plot/curves.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

Panel Named(const std::string& title, std::vector<Series> series) {
  return {std::move(series), {.title = title, .x_label = "step"}};
}

TEST(PanelsSvg, NoPanelsAreAnEmptyFigure) {
  const std::string svg = PanelsSvg({}, {.title = "nothing"});
  EXPECT_EQ(Count(svg, ">nothing</text>"), 1u);
  EXPECT_EQ(Count(svg, "</svg>"), 1u);
}

TEST(PanelsSvg, OneLegendForAll) {
  const std::vector<Panel> panels = {
      Named("loss", {{"first", {1, 2}, {3, 4}}, {"second", {1, 2}, {5, 6}}}),
      Named("lr", {{"first", {1, 2}, {3, 4}}, {"third", {1, 2}, {5, 6}, false, false, 2}})};
  const std::string svg = PanelsSvg(panels, {});
  for (const char* label : {"first", "second", "third", "loss", "lr"}) {
    EXPECT_EQ(Count(svg, ">" + std::string(label) + "</text>"), 1u) << label;
  }
  EXPECT_EQ(Count(svg, "h20\""), 3u);
  EXPECT_EQ(Count(svg, "class=\"line s0\""), 3u + 2u);  // line and dots, twice; legend once
  EXPECT_EQ(Count(svg, "class=\"line s1\""), 2u + 1u);
  EXPECT_EQ(Count(svg, "class=\"line s2\""), 2u + 1u);
}

TEST(PanelsSvg, PanelsStandSideBySide) {
  const std::vector<Panel> panels(3, Named("p", {{"a", {1, 2}, {3, 4}}}));
  const PanelsOptions options{.columns = 2, .panel_width = 300, .panel_height = 200};
  const std::string svg = PanelsSvg(panels, options);
  std::set<std::pair<int, int>> places;
  for (size_t at = svg.find("class=\"axis\""); at != std::string::npos;
       at = svg.find("class=\"axis\"", at + 1)) {
    double x = 0, y = 0;
    ASSERT_EQ(std::sscanf(svg.c_str() + svg.find(" d=\"", at), " d=\"M%lf %lf", &x, &y), 2);
    places.insert({static_cast<int>(x / 320), static_cast<int>((y - 26) / 220)});
  }
  EXPECT_EQ(places, (std::set<std::pair<int, int>>{{0, 0}, {1, 0}, {0, 1}}));
  EXPECT_EQ(Count(svg, "width=\"652\""), 2u);
}

TEST(PanelsSvg, TheXAxesAgree) {
  const std::string svg = PanelsSvg(std::vector<Panel>{Named("a", {{"x", {0, 100}, {2, 3}}}),
                                                       Named("b", {{"x", {0, 50}, {4, 6}}})},
                                    {});
  EXPECT_EQ(Count(svg, ">100</text>"), 2u);
  EXPECT_EQ(Count(CurvesSvg(std::vector<Series>{{"x", {0, 50}, {4, 6}}}, {}), ">100</text>"), 0u);
}

TEST(PanelsSvg, ManyLongLinesStaySmall) {
  const CounterRng rng(1, 0);
  std::vector<Panel> panels;
  for (int p = 0; p < 5; ++p) {
    Panel panel = Named("panel", {});
    for (int run = 0; run < 20; ++run) {
      for (const bool faint : {true, false}) {
        Series series{.label = "run", .faint = faint, .colour = run};
        for (uint64_t i = 0; i < 2000; ++i) {
          series.x.push_back(static_cast<double>(i));
          series.y.push_back(rng.Uniform(i + 7919 * static_cast<uint64_t>(run)));
        }
        panel.series.push_back(series);
      }
    }
    panels.push_back(panel);
  }
  const std::string svg = PanelsSvg(panels, {});
  EXPECT_LT(svg.size(), 200000u);
  EXPECT_GT(svg.size(), 60000u);  // and as fine as that allows
}

TEST(PanelsSvg, APanelWithoutDataSaysSo) {
  const std::string svg =
      PanelsSvg(std::vector<Panel>{Named("a", {{"x", {1}, {2}}}), Named("b", {{"x", {}, {}}})}, {});
  EXPECT_EQ(Count(svg, "no data"), 1u);
}

}  // namespace
}  // namespace folio
