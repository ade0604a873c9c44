#include <fmt/format.h>
#include <gtest/gtest.h>

#include "folio/base/rng.h"
#include "folio/plot/bars.h"
#include "folio/plot/curves.h"
#include "folio/plot/heatmap.h"
#include "folio/plot/html.h"
#include "folio/plot/scatter.h"
#include "folio/plot/token_strip.h"
#include "tests/figures/figure_checks.h"

namespace folio {
namespace {

const char* const kStrange[] = {"",
                                " the",
                                "\xE4\xBD\xA0\xE5\xA5\xBD",
                                "\xF0\x9F\x98\x80",
                                "\x01\xff",
                                "WWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWW",
                                "\xD0\xA9\xD0\xA9\xD0\xA9",
                                "<&>\"'",
                                "#+=~^@%"};

class OtherFigures : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = WhyNoRenderer(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_F(OtherFigures, ScattersAreSound) {
  const CounterRng rng(3, 3);
  std::vector<ScatterPoint> points;
  for (uint64_t i = 0; i < 2000; ++i) {
    points.push_back({.x = rng.Normal(i),
                      .y = rng.Normal(i + 5000),
                      .label = i < 9 ? kStrange[i] : fmt::format("token {}", i),
                      .colour = static_cast<int>(i % 7)});
  }
  const ScatterOptions options{.title = "Embeddings", .x_label = "first", .y_label = "second"};
  EXPECT_EQ(CheckFigure(ScatterSvg(points, options), {"Embeddings", "first", "second"}), "");
  points.resize(40);
  EXPECT_EQ(CheckFigure(ScatterSvg(points, options), {"token 12", "<&>\"'"}), "");
  // All in one place: one label at most on each side.
  for (ScatterPoint& point : points) point.x = point.y = 3;
  EXPECT_EQ(CheckFigure(ScatterSvg(points, options), {}), "");
  EXPECT_EQ(CheckFigure(ScatterSvg({}, options), {"no data"}), "");
}

TEST_F(OtherFigures, BarsAreSound) {
  std::vector<Bar> bars;
  for (const char* label : kStrange) bars.push_back({.label = label, .value = 0.1, .note = label});
  bars.push_back({.label = "largest", .value = 0.7});
  bars.push_back({.label = "cut", .value = 0.05, .muted = true});
  const BarsOptions options{.title = "Next token"};
  EXPECT_EQ(CheckFigure(BarsSvg(bars, options), {"Next token", "largest", "0.7", "cut"}), "");
  bars[1].value = -0.4;
  bars[2].value = -1e300;
  EXPECT_EQ(CheckFigure(BarsSvg(bars, options), {"largest"}), "");
  EXPECT_EQ(CheckFigure(BarsSvg(bars, {.width = 10}), {}), "");
}

TEST_F(OtherFigures, TokenStripsAreSound) {
  std::vector<StripToken> tokens;
  for (size_t i = 0; i < 60; ++i) {
    tokens.push_back({.text = VisibleToken(kStrange[i % 9]),
                      .heat = static_cast<double>(i % 11) / 10,
                      .underline = static_cast<int>(i % 4),
                      .note = i % 5 == 0 ? "" : fmt::format("{}", i * i),
                      .line_break = i % 17 == 16});
  }
  const StripOptions options{.title = "Surprise", .key = "how unlikely"};
  EXPECT_EQ(CheckFigure(TokenStripSvg(tokens, options),
                        {"Surprise", "how unlikely", "\xC2\xB7the", "<01><FF>"}),
            "");
  EXPECT_EQ(CheckFigure(TokenStripSvg(tokens, {.width = 100}), {}), "");
}

TEST_F(OtherFigures, CurvesAreSound) {
  std::vector<Series> series(3, {"", {1, 2, 3, 40}, {4, 3.5, 3.1, 2.9}});
  for (size_t i = 0; i < series.size(); ++i) series[i].label = fmt::format("run {}", i);
  const CurvesOptions options{.title = "Loss", .x_label = "step", .y_label = "nats", .log_x = true};
  EXPECT_EQ(CheckFigure(CurvesSvg(series, options), {"Loss", "step", "nats", "run 0", "run 2"}),
            "");
}

TEST_F(OtherFigures, PanelsAreSound) {
  std::vector<Panel> panels(4);
  for (size_t i = 0; i < panels.size(); ++i) {
    panels[i].options = {.title = fmt::format("panel {}", i), .x_label = "step", .y_label = "nats"};
    panels[i].series = {{"first", {1, 2, 3}, {4, 3.5, 3.1}}, {"second", {1, 2}, {3, 2}}};
  }
  EXPECT_EQ(CheckFigure(PanelsSvg(panels, {.title = "Runs"}),
                        {"Runs", "first", "second", "panel 0", "panel 3", "step", "nats"}),
            "");
}

TEST_F(OtherFigures, SeveralFiguresOfAPageDoNotDisturbEachOther) {
  Heatmap map{.title = "Large", .rows = 70, .columns = 70};
  map.values.assign(70 * 70, 0.5F);
  map.values[1] = -1;
  const std::string large = HeatmapSvg(map, {});
  map = {.title = "Small", .rows = 1, .columns = 2, .values = {1, 0}};
  HtmlPage page("Two maps");
  page.Heading(1, "Two maps");
  page.Figure(large, "one");
  page.Figure(HeatmapSvg(map, {}));
  page.Figure(large);
  const std::string html = std::move(page).Finish();
  EXPECT_EQ(CheckPage(html, {"Large", "Small"}), "");
  const std::vector<std::string> figures = FiguresOf(html);
  ASSERT_EQ(figures.size(), 3U);
  EXPECT_EQ(Render(figures[0]).pixels, Render(large).pixels);
  EXPECT_EQ(Render(figures[2]).pixels, Render(large).pixels);
}

}  // namespace
}  // namespace folio
