#include <gtest/gtest.h>

#include <limits>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "folio/plot/curves.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

TEST(ScatterSvg, EveryPointIsADotOfItsColour) {
  const std::vector<ScatterPoint> points = {
      {1, 2, "a", 0}, {2, 3, "b", 1}, {3, 1, "c", 1}, {4, 4, "<d>", 6}, {5, 0, "", 8}};
  const std::string svg = ScatterSvg(points, {.title = "t", .x_label = "x", .y_label = "y"});
  EXPECT_EQ(Count(svg, "h0"), 5U);
  EXPECT_EQ(Count(svg, "class=\"line s1\""), 1U);  // colour 8 is colour 1 again
  EXPECT_EQ(Count(svg, "class=\"line s6\""), 1U);
  for (const char* label : {"a", "b", "c", "&lt;d&gt;", "t", "x", "y"}) {
    EXPECT_EQ(Count(svg, ">" + std::string(label) + "</text>"), 1U) << label;
  }
}

TEST(ScatterSvg, ColoursWithNamesHaveALegend) {
  std::vector<ScatterPoint> points = {{1, 2, "", 0}, {2, 3, "", 1}};
  ScatterOptions options{.title = "t", .width = 240};
  options.groups = {"letter", "digit"};
  std::string svg = ScatterSvg(points, options);
  EXPECT_EQ(Count(svg, "h0"), 4U);
  EXPECT_EQ(Count(svg, ">letter</text>") + Count(svg, ">digit</text>"), 2U);
  options.groups.assign(9, "name");
  for (int colour = 2; colour < 9; ++colour) points.push_back({1, 2, "", colour});
  svg = ScatterSvg(points, options);
  EXPECT_EQ(Count(svg, "h0"), 18U);
  EXPECT_EQ(Count(svg, "class=\"line s1\""), 3U);  // the ninth is colour 1 again
  std::set<std::string> lines;
  const std::regex name("y=\"([0-9.]+)\"[^>]*>name<");
  for (std::sregex_iterator at(svg.begin(), svg.end(), name), end; at != end; ++at) {
    lines.insert((*at)[1]);
  }
  EXPECT_GE(lines.size(), 2U);
  EXPECT_LT(lines.size(), 9U);
}

TEST(ScatterSvg, TheLegendNamesWhatIsThere) {
  const std::vector<ScatterPoint> points = {{1, 2, "", 0}, {2, 3, "", 2}};
  const std::string svg =
      ScatterSvg(points, {.title = "t", .groups = {"letter", "digit", "other"}});
  EXPECT_EQ(Count(svg, ">letter</text>") + Count(svg, ">other</text>"), 2U);
  EXPECT_EQ(Count(svg, ">digit</text>"), 0U);
  EXPECT_EQ(Count(svg, "class=\"line s2\""), 2U);  // in the colour of its points
}

TEST(ScatterSvg, ACloudIsAShadeAndWidensTheAxes) {
  const std::vector<ScatterPoint> points = {{0, 0, "a", 0}, {1, 1, "b", 0}};
  ScatterOptions options;
  EXPECT_EQ(Count(ScatterSvg(points, options), "class=\"off\""), 0U);
  for (int i = 0; i < 50000; ++i) options.cloud.push_back({.x = i % 2 * 9.0, .y = 1});
  const std::string svg = ScatterSvg(points, options);
  EXPECT_EQ(Count(svg, "class=\"off\""), 2U);
  EXPECT_EQ(Count(svg, "h0"), 2U);
  EXPECT_EQ(Count(svg, ">8</text>"), 1U);
}

TEST(ScatterSvg, LabelsOfCrowdedPointsAreLeftOut) {
  std::vector<ScatterPoint> points(50, {.x = 1, .y = 1, .label = "crowd"});
  const std::string svg = ScatterSvg(points, {});
  EXPECT_EQ(Count(svg, "h0"), 50U);
  EXPECT_EQ(Count(svg, ">crowd</text>"), 2U);  // one on each side
  // A neighbour's dot counts as well.
  points = {{.x = 0, .y = 0}, {.x = 100, .y = 1}, {.x = 50, .y = 0.5, .label = "m"}};
  EXPECT_EQ(Count(ScatterSvg(points, {}), "text-anchor=\"start\">m</text>"), 1U);
  points.push_back({.x = 51, .y = 0.5});
  EXPECT_EQ(Count(ScatterSvg(points, {}), "text-anchor=\"end\">m</text>"), 1U);
}

TEST(ScatterSvg, OddValuesAreFigures) {
  const double max = std::numeric_limits<double>::max();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(Count(ScatterSvg({}, {}), "no data"), 1U);
  const std::vector<ScatterPoint> none = {{.x = nan, .y = 1}, {.x = 1, .y = max}};
  EXPECT_EQ(Count(ScatterSvg(none, {}), "no data"), 1U);
  for (const auto& [low, high] : {std::pair<double, double>{3, 3},
                                  {0, 0},
                                  {-7, -7},
                                  {1, 1 + 1e-15},
                                  {0, 5e-324},
                                  {1e300, 1e300},
                                  {-1e300, 1e300},
                                  {1e-300, 1e300}}) {
    const std::vector<ScatterPoint> points = {{.x = low, .y = high}, {.x = high, .y = low}};
    const std::string svg = ScatterSvg(points, {});
    EXPECT_EQ(Count(svg, "h0"), 2U) << low << " " << high;
    EXPECT_EQ(Count(svg, "nan") + Count(svg, "inf"), 0U);
    EXPECT_EQ(ScatterSvg(points, {}), svg);
  }
}

TEST(ScatterSvg, AWholeVocabularyIsDrawn) {
  std::vector<ScatterPoint> points;
  for (int i = 0; i < 50257; ++i) {
    points.push_back({.x = i * 7 % 251 * 1.0, .y = i / 251.0, .label = "token", .colour = i % 3});
  }
  EXPECT_LT(ScatterSvg(points, {}).size(), 1500000U);
}

}  // namespace
}  // namespace folio
