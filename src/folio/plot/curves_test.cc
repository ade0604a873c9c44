#include "folio/plot/curves.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "folio/base/rng.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

// The places that path data of absolute and relative lines leads to.
std::vector<std::pair<double, double>> PlacesOf(const std::string& path) {
  std::vector<std::pair<double, double>> places;
  const char* at = path.c_str();
  bool relative = false;
  for (double x = 0, y = 0; *at != '\0';) {
    if (*at == 'M' || *at == 'l') relative = *at++ == 'l';
    char* end = nullptr;
    const double first = std::strtod(at, &end), second = std::strtod(end, &end);
    if (end == at) {
      ADD_FAILURE() << "not a path: " << at;
      break;
    }
    at = end;
    x = relative ? x + first : first;
    y = relative ? y + second : second;
    places.emplace_back(x, y);
  }
  return places;
}

// Every element closed in its order, attributes quoted, no stray markup or number that is none.
void ExpectWellFormed(const std::string& xml) {
  std::vector<std::string> open;
  size_t at = xml.find("?>") + 2;
  while ((at = xml.find('<', at)) != std::string::npos) {
    const size_t end = xml.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = xml.substr(at + 1, end - at - 1);
    ASSERT_EQ(tag.find('<'), std::string::npos) << tag;
    ASSERT_EQ(Count(tag, "\"") % 2, 0u) << tag;
    const std::string name = tag.substr(tag[0] == '/' ? 1 : 0, tag.find(' '));
    if (tag[0] == '/') {
      ASSERT_FALSE(open.empty());
      ASSERT_EQ(open.back(), name);
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name.substr(0, name.find(' ')));
    }
    at = end;
  }
  EXPECT_TRUE(open.empty());
  for (const char* bad : {"nan", "inf"}) EXPECT_EQ(Count(xml, bad), 0u);
}

// The path data of the n-th drawn line (legend swatches end in h20, dots in h0).
std::string LineData(const std::string& svg, size_t n) {
  for (size_t at = svg.find("class=\"line"); at != std::string::npos;
       at = svg.find("class=\"line", at + 1)) {
    const size_t begin = svg.find(" d=\"", at) + 4;
    const std::string data = svg.substr(begin, svg.find('"', begin) - begin);
    if (data.find('h') != std::string::npos) continue;
    if (n-- == 0) return data;
  }
  return "none";
}

std::string Draw(std::vector<Series> series, CurvesOptions options = {}) {
  const std::string svg = CurvesSvg(series, options);
  ExpectWellFormed(svg);
  EXPECT_LT(svg.size(), 200000u);
  return svg;
}

TEST(CurvesSvg, ALineThatLiesOnAnotherIsDashed) {
  const std::vector<double> x = {0, 1, 2, 3}, y = {4, 2, 1, 0.5};
  const Series first{.label = "a", .x = x, .y = y}, other{.label = "b", .x = x, .y = {1, 1, 1, 1}};
  Series longer{.label = "c", .x = {0, 1, 2, 3, 4}, .y = {4, 2, 1, 0.5, 0.25}};
  EXPECT_EQ(Count(CurvesSvg(std::vector{first, other}, {}), "stroke-dasharray=\"8 8\""), 0U);
  const std::string svg = CurvesSvg(std::vector{first, longer, other, first}, {});
  EXPECT_EQ(Count(svg, "stroke-dasharray=\"8 8\""), 1U);
  EXPECT_EQ(Count(svg, "stroke-dasharray=\"4 12\""), 1U);  // on both
  longer.faint = true;
  EXPECT_EQ(Count(CurvesSvg(std::vector{longer, first}, {}), "stroke-dasharray=\"8 8\""), 0U);
}

TEST(CurvesSvg, NothingToDrawIsStillAFigure) {
  const std::string nothing = "no data";
  EXPECT_EQ(Count(Draw({}), nothing), 1u);
  EXPECT_EQ(Count(Draw({{"empty", {}, {}}}), nothing), 1u);
  EXPECT_EQ(Count(Draw({{"gaps", {1, 2}, {NAN, NAN}}}), nothing), 1u);
  EXPECT_EQ(Count(Draw({{"negative", {1, 2}, {-1, 0}}}, {.log_y = true}), nothing), 1u);
  EXPECT_EQ(Count(Draw({{"one", {1}, {2}}}), nothing), 0u);
}

TEST(CurvesSvg, LabelsAreEscaped) {
  const std::string svg = Draw({{"a<b & \"c\"", {1, 2}, {3, 4}}},
                               {.title = "</svg>", .x_label = "<x>", .y_label = "&y;\xff"});
  EXPECT_EQ(Count(svg, "a&lt;b &amp; &quot;c&quot;"), 1u);
  EXPECT_EQ(Count(svg, "</svg>"), 1u);
  EXPECT_EQ(Count(svg, "&amp;y;\xEF\xBF\xBD"), 1u);
}

TEST(CurvesSvg, GapsLiftThePen) {
  EXPECT_EQ(Count(LineData(Draw({{"", {1, 2, 3, 4}, {1, 2, 3, 4}}}), 0), "M"), 1u);
  EXPECT_EQ(Count(LineData(Draw({{"", {1, 2, 3, 4, 5}, {1, 2, NAN, 4, 5}}}), 0), "M"), 2u);
  EXPECT_EQ(Count(LineData(Draw({{"", {1, 2, NAN, 4, 5}, {1, 2, 3, 4, 5}}}), 0), "M"), 2u);
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Count(LineData(Draw({{"", {1, 2, 3, 4, 5}, {1, 2, infinity, 4, 5}}}), 0), "M"), 2u);
  EXPECT_EQ(
      Count(LineData(Draw({{"", {1, 2, 3, 4, 5}, {1, 2, 0, 4, 5}}}, {.log_y = true}), 0), "M"), 2u);
}

TEST(CurvesSvg, APointBetweenGapsIsADot) {
  Series series{"", {}, {}};
  for (int i = 0; i < 100; ++i) {
    series.x.push_back(i);
    series.y.push_back(i == 50 || i == 52 ? NAN : i);
  }
  EXPECT_EQ(Count(Draw({series}), "h0"), 1u);
}

TEST(CurvesSvg, LinesRiseWhereValuesRise) {
  for (const bool log : {false, true}) {
    const std::string svg = Draw({{"", {1, 10}, {1, 100}}}, {.log_x = log, .log_y = log});
    const auto places = PlacesOf(LineData(svg, 0));
    ASSERT_EQ(places.size(), 2u);
    EXPECT_LT(places[0].first, places[1].first);
    EXPECT_GT(places[0].second, places[1].second);
    for (const auto& [x, y] : places) EXPECT_TRUE(0 < x && x < 800 && 0 < y && y < 480);
  }
}

TEST(CurvesSvg, RangesWithoutExtentAndAtTheLimitsOfDoubleWork) {
  const double max = std::numeric_limits<double>::max(), tiny = 5e-324;
  const std::vector<std::vector<double>> ranges = {
      {3, 3},    {0, 0},       {-7, -7},        {1, 1 + 1e-15}, {1e9, 1e9 + 1},  {-max, max},
      {0, tiny}, {tiny, tiny}, {-1e300, 1e300}, {1e300, 1e300}, {1e-300, 1e300}, {0, 1e-285}};
  for (const std::vector<double>& range : ranges) {
    for (const bool log : {false, true}) {
      Draw({{"y", {1, 2}, range}}, {.log_y = log});
      Draw({{"x", range, {1, 2}}}, {.log_x = log});
      Draw({{"both", range, range}}, {.log_x = log, .log_y = log});
    }
  }
}

TEST(CurvesSvg, AMillionPointsStaySmallAndKeepTheSpike) {
  const CounterRng rng(1, 0);
  Series series{"many", {}, {}};
  for (uint64_t i = 0; i < 1000000; ++i) {
    series.x.push_back(static_cast<double>(i));
    series.y.push_back(i == 654321 ? 1000 : rng.Uniform(i));
  }
  const std::string svg = Draw({series});
  // The spike is the one point near the top of the plot.
  double top = 480;
  const auto places = PlacesOf(LineData(svg, 0));
  for (const auto& [x, y] : places) top = std::min(top, y);
  EXPECT_LT(top, 100);
  EXPECT_NEAR(places.back().first, 776, 0.2);  // what was rounded does not add up
  series.x.resize(50000);
  series.y.resize(50000);
  Draw(std::vector<Series>(30, series));
}

TEST(CurvesSvg, LegendStaysAboveTheData) {
  for (const size_t count : {1u, 7u, 24u, 200u}) {
    for (const double width : {200.0, 800.0}) {
      const std::string label = "a rather long label of a series that nobody can read";
      const std::string svg = Draw(std::vector<Series>(count, {label, {1, 2}, {3, 4}}),
                                   {.title = "t", .width = width, .height = 200});
      double x = 0, axis_top = 0, swatch = 0;
      const size_t axis = svg.find("class=\"axis\"");
      ASSERT_EQ(std::sscanf(svg.c_str() + svg.find(" d=\"", axis), " d=\"M%lf %lf", &x, &axis_top),
                2);
      EXPECT_LT(axis_top, 130);
      for (size_t at = svg.find("h20\""); at != std::string::npos; at = svg.find("h20\"", at + 1)) {
        ASSERT_EQ(std::sscanf(svg.c_str() + svg.rfind("d=\"M", at), "d=\"M%lf %lf", &x, &swatch),
                  2);
        EXPECT_LT(swatch + 10, axis_top);
      }
      const size_t shown = Count(svg, "h20\"");
      if (shown < count) {
        EXPECT_EQ(Count(svg, "+ " + std::to_string(count - shown) + " more"), 1u);
      }
    }
  }
}

TEST(CurvesSvg, SeriesDifferInColourThenInDashes) {
  std::vector<Series> series(9, {"", {1, 2}, {3, 4}});
  for (size_t i = 0; i < series.size(); ++i) series[i].y[1] += static_cast<double>(i);
  series[1].dashed = true;
  series[2].faint = true;
  const std::string svg = Draw(series);
  EXPECT_EQ(
      Count(svg, "line s0\" stroke-width=\"1.8\" stroke-opacity=\"1\" stroke-dasharray=\"none"),
      1u);
  EXPECT_EQ(
      Count(svg, "line s0\" stroke-width=\"1.8\" stroke-opacity=\"1\" stroke-dasharray=\"7 4"), 1u);
  EXPECT_EQ(Count(svg, "line s2\" stroke-width=\"1\" stroke-opacity=\"0.4\""), 1u);
  EXPECT_LT(svg.find("line s2"), svg.find("line s0"));  // the background first
  EXPECT_EQ(Count(svg, "prefers-color-scheme:dark"), 1u);
}

TEST(CurvesSvg, LinesOfOneColourLookAlike) {
  const std::string svg =
      Draw({{"a", {1, 2}, {3, 4}, true, false, 8}, {"b", {1, 2}, {3, 4}, false, false, 8}});
  EXPECT_EQ(Count(svg, "line s1\""), 5u);  // twice in the legend, two lines, dots of one
  EXPECT_EQ(Count(svg, "line s0\""), 0u);
  EXPECT_EQ(Count(svg, "stroke-dasharray=\"7 4\""), 4u);  // not the dots
}

TEST(CurvesSvg, WholeNumbersHaveWholeTicks) {
  EXPECT_EQ(Count(Draw({{"a", {0, 1, 2}, {7, 8, 9}}}), ">0.5<"), 0u);
  EXPECT_EQ(Count(Draw({{"a", {0, 1, 1.5, 2}, {7, 8, 8.5, 9}}}), ">0.5<"), 1u);
  EXPECT_EQ(Count(Draw({{"a", {3}, {7}}}), ">3<"), 1u);  // one point, a range around it
}

TEST(CurvesSvg, IsDeterministic) {
  const std::vector<Series> series = {{"a", {1, 2, 3}, {0.1, NAN, 0.3}}};
  EXPECT_EQ(CurvesSvg(series, {}), CurvesSvg(series, {}));
}

TEST(CurvesSvg, UnequalLengthsAreRefused) {
  const std::vector<Series> series = {{"a", {1, 2}, {1}}};
  EXPECT_TRUE(Contains(ErrorOf([&] { CurvesSvg(series, {}); }, ErrorKind::kUsage), "2 and 1"));
  EXPECT_TRUE(
      Contains(ErrorOf([] { CurvesSvg({}, {.width = 10}); }, ErrorKind::kUsage), "10 x 480"));
}

}  // namespace
}  // namespace folio
