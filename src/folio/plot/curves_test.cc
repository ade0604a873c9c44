#include "folio/plot/curves.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <regex>
#include <set>
#include <string>

#include "folio/base/rng.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

// The points of path data with absolute and relative lines.
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
  for (const char* bad : {"nan", "inf"}) EXPECT_EQ(Count(svg, bad), 0u);
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
  EXPECT_NEAR(places.back().first, 776, 0.2);  // rounding errors do not add up
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
  EXPECT_GT(svg.size(), 60000u);  // and as detailed as that allows
}

TEST(PanelsSvg, APanelWithoutDataSaysSo) {
  const std::string svg =
      PanelsSvg(std::vector<Panel>{Named("a", {{"x", {1}, {2}}}), Named("b", {{"x", {}, {}}})}, {});
  EXPECT_EQ(Count(svg, "no data"), 1u);
}

// "x,y x,y / x,y": a slash is a gap.
std::string Print(std::span<const PlotPoint> points) {
  std::string text;
  for (const PlotPoint& p : points) {
    if (!text.empty()) text += ' ';
    text += std::isfinite(p.y) ? std::to_string(static_cast<int>(p.x * 10)) + "," +
                                     std::to_string(static_cast<int>(p.y))
                               : "/";
  }
  return text;
}

std::string Reduced(std::vector<PlotPoint> points) {
  return Print(ReduceLine(points, 1.0));
}

TEST(ReduceLine, LeavesSparsePointsAlone) {
  EXPECT_EQ(Reduced({}), "");
  EXPECT_EQ(Reduced({{0, 5}}), "0,5");
  EXPECT_EQ(Reduced({{0, 5}, {1, 4}, {2, 6}}), "0,5 10,4 20,6");
}

TEST(ReduceLine, KeepsFirstLowHighLastInOrder) {
  EXPECT_EQ(Reduced({{0.1, 5}, {0.2, 9}, {0.3, 6}, {0.4, 1}, {0.5, 3}, {0.6, 4}, {1.5, 7}}),
            "1,5 2,9 4,1 6,4 15,7");
  EXPECT_EQ(Reduced({{0.1, 5}, {0.2, 5}, {0.3, 5}}), "1,5 3,5");
}

TEST(ReduceLine, GapsStay) {
  EXPECT_EQ(Reduced({{0, 1}, {1, NAN}, {2, 3}}), "0,1 / 20,3");
  EXPECT_EQ(Reduced({{0, 1}, {NAN, 1}, {NAN, NAN}, {2, 3}, {3, NAN}}), "0,1 / 20,3 /");
  EXPECT_EQ(Reduced({{0, NAN}, {1, 2}}), "10,2");
  EXPECT_EQ(Reduced({{0, NAN}, {1, NAN}}), "");
  EXPECT_EQ(Reduced({{0, 1}, {1, std::numeric_limits<double>::infinity()}, {2, 3}}), "0,1 / 20,3");
}

TEST(ReduceLine, GapsNarrowerThanAColumnAreNotSeen) {
  EXPECT_EQ(Reduced({{0.1, 1}, {0.2, NAN}, {0.3, 2}, {0.4, NAN}, {1.1, 3}}), "1,1 3,2 / 11,3");
}

TEST(ReduceLine, AMillionPointsKeepEverySpike) {
  const CounterRng rng(1, 0);
  std::vector<PlotPoint> points(1000000);
  for (size_t i = 0; i < points.size(); ++i) {
    points[i] = {static_cast<double>(i) * 700 / 1e6, rng.Uniform(i)};
  }
  points[123457].y = 1000;
  points[777777].y = -1000;
  points[999999].y = 500;
  const std::vector<PlotPoint> reduced = ReduceLine(points, 1.0);
  EXPECT_LE(reduced.size(), 4 * 701u);
  int spikes = 0;
  double last_x = 0;
  for (const PlotPoint& p : reduced) {
    if (std::abs(p.y) > 1) ++spikes;
    EXPECT_GE(p.x, last_x);
    last_x = p.x;
  }
  EXPECT_EQ(spikes, 3);
}

TEST(ReduceLine, AnyOrderOfXIsBounded) {
  const CounterRng rng(2, 0);
  std::vector<PlotPoint> points(300000);
  for (size_t i = 0; i < points.size(); ++i) {
    points[i] = {700 * rng.Uniform(2 * i), rng.Uniform(2 * i + 1)};
    if (i % 2 == 1) points[i].y = NAN;
  }
  points[150000].y = 1000;
  const std::vector<PlotPoint> reduced = ReduceLine(points, 1.0);
  EXPECT_LE(reduced.size(), 5 * 4001u);
  int spikes = 0;
  for (const PlotPoint& p : reduced) spikes += p.y > 1 ? 1 : 0;
  EXPECT_EQ(spikes, 1);
}

TEST(Smooth, WithoutWeightIsTheValuesThemselves) {
  const std::vector<double> y = {3, -1, 4, 1.5};
  EXPECT_EQ(Smooth(y, 0), y);
  EXPECT_TRUE(Smooth({}, 0.5).empty());
}

TEST(Smooth, TheFirstValueIsNotPulledToZero) {
  const std::vector<double> smooth = Smooth(std::vector<double>{8, 8, 8, 8, 8}, 0.99);
  for (const double value : smooth) EXPECT_NEAR(value, 8, 1e-12);
}

// Each value is the mean of all before it, with weight^k for the one k steps back.
TEST(Smooth, IsTheWeightedMeanOfThePast) {
  constexpr double kWeight = 0.7;
  const std::vector<double> y = {2, -3, 5, 0.25, 11, 7, -1};
  const std::vector<double> smooth = Smooth(y, kWeight);
  ASSERT_EQ(smooth.size(), y.size());
  for (size_t i = 0; i < y.size(); ++i) {
    double sum = 0, total = 0;
    for (size_t k = 0; k <= i; ++k) {
      sum += y[i - k] * std::pow(kWeight, static_cast<double>(k));
      total += std::pow(kWeight, static_cast<double>(k));
    }
    EXPECT_NEAR(smooth[i], sum / total, 1e-12) << i;
  }
}

// A mean that depended on later values, or on the length of the run, would be misleading.
TEST(Smooth, DoesNotDependOnWhatComesLater) {
  const std::vector<double> y = {2, -3, 5, 0.25, 11};
  const std::vector<double> all = Smooth(y, 0.9);
  const std::vector<double> begin = Smooth(std::span(y).first(3), 0.9);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(begin[i], all[i]);
}

TEST(Smooth, GapsStayGapsAndDoNotSpread) {
  const std::vector<double> smooth =
      Smooth(std::vector<double>{NAN, 1, NAN, INFINITY, 3, -INFINITY}, 0.5);
  EXPECT_TRUE(std::isnan(smooth[0]));
  EXPECT_EQ(smooth[1], 1);
  EXPECT_TRUE(std::isnan(smooth[2]));
  EXPECT_EQ(smooth[3], INFINITY);
  EXPECT_NEAR(smooth[4], (1 * 0.5 + 3) / 1.5, 1e-12);
  EXPECT_EQ(smooth[5], -INFINITY);
}

TEST(Smooth, AWeightOfOneIsRefused) {
  EXPECT_DEATH(Smooth(std::vector<double>{1}, 1), "weight");
}

// ---- Points -------------------------------------------------------------------------------------

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

// ---- Bars ---------------------------------------------------------------------------------------

struct DrawnBars {
  std::string area;
  double x = 0, width = 0;
};

// The rectangles of the bars, in their order.
std::vector<DrawnBars> BarsOf(const std::string& svg) {
  std::vector<DrawnBars> drawn;
  const std::string begin = "<rect class=\"";
  for (size_t at = svg.find(begin); at != std::string::npos; at = svg.find(begin, at + 1)) {
    const size_t name = at + begin.size();
    DrawnBars bar{.area = svg.substr(name, svg.find('"', name) - name)};
    if (bar.area == "page") continue;
    const std::string rest = svg.substr(svg.find(" x=", at));
    double y = 0;
    EXPECT_EQ(
        std::sscanf(rest.c_str(), " x=\"%lf\" y=\"%lf\" width=\"%lf\"", &bar.x, &y, &bar.width), 3);
    drawn.push_back(bar);
  }
  return drawn;
}

bool Has(const std::string& svg, const std::string& text) {
  return svg.find(">" + text + "</text>") != std::string::npos;
}

TEST(BarsSvg, LengthsAreInProportion) {
  const std::vector<Bar> bars = {{"a", 0.5}, {"b", 0.25}, {"c", 0}, {"d", 0.125, "", true}};
  const std::vector<DrawnBars> drawn = BarsOf(BarsSvg(bars, {}));
  ASSERT_EQ(drawn.size(), 4U);
  EXPECT_NEAR(drawn[1].width, drawn[0].width / 2, 0.02);
  EXPECT_EQ(drawn[2].width, 0);
  EXPECT_EQ(drawn[0].area, "plus");
  EXPECT_EQ(drawn[3].area, "off");
  for (const DrawnBars& bar : drawn) EXPECT_EQ(bar.x, drawn[0].x);
}

TEST(BarsSvg, NegativeBarsGoLeft) {
  const std::vector<Bar> bars = {{"a", 2}, {"b", -1}};
  const std::string svg = BarsSvg(bars, {});
  const std::vector<DrawnBars> drawn = BarsOf(svg);
  EXPECT_EQ(drawn[1].area, "minus");
  EXPECT_NEAR(drawn[1].x + drawn[1].width, drawn[0].x, 0.02);
  EXPECT_NEAR(drawn[1].width, drawn[0].width / 2, 0.02);
  EXPECT_TRUE(Has(svg,
                  "\xE2\x88\x92"
                  "1"));
}

TEST(BarsSvg, TheFullLengthMayBeGiven) {
  const std::vector<Bar> bars = {{"a", 0.5}, {"b", 7}};
  const double largest = BarsOf(BarsSvg(std::span(bars).first(1), {}))[0].width;
  const std::vector<DrawnBars> drawn = BarsOf(BarsSvg(bars, {.full = 1}));
  EXPECT_NEAR(drawn[0].width, largest / 2, 20);
  EXPECT_NEAR(drawn[1].width, 2 * drawn[0].width, 0.02);  // no longer than the full length
}

TEST(BarsSvg, TheAxisHasNumbers) {
  const std::vector<Bar> bars = {{"a", 0.5, "x"}, {"b", -0.25, "y"}};
  const std::string svg = BarsSvg(bars, {});
  for (const char* tick : {"\xE2\x88\x92"
                           "0.2",
                           "0", "0.2", "0.4"}) {
    EXPECT_TRUE(Has(svg, tick)) << tick;
  }
  EXPECT_TRUE(Has(BarsSvg(bars, {.full = 1}), "1.0"));
}

TEST(BarsSvg, NotesStandForDigits) {
  const std::vector<Bar> bars = {{"a", 0.123456}, {"b", 1, "certain"}, {"<c>", 1e-9}};
  const std::string svg = BarsSvg(bars, {.title = "t & u"});
  EXPECT_TRUE(Has(svg, "0.1235"));
  EXPECT_TRUE(Has(svg, "certain"));
  EXPECT_TRUE(Has(svg, "1e-09"));
  EXPECT_TRUE(Has(svg, "&lt;c&gt;"));
  EXPECT_TRUE(Has(svg, "t &amp; u"));
}

TEST(BarsSvg, OddValuesAreFigures) {
  const double max = std::numeric_limits<double>::max();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(Has(BarsSvg({}, {}), "no data"));
  for (const std::vector<Bar>& bars : {std::vector<Bar>{{"a", nan}, {"b", 1}},
                                       {{"a", max}, {"b", -max}},
                                       {{"a", 0}},
                                       {{"a", 0}, {"b", 1e-310}},
                                       {{"a", -5}},
                                       {{"a", std::numeric_limits<double>::infinity()}}}) {
    for (const double full : {0.0, 1e-300, 1e-310, max, nan}) {
      const std::string svg = BarsSvg(bars, {.full = full});
      EXPECT_EQ(BarsOf(svg).size(), bars.size());
      EXPECT_EQ(BarsSvg(bars, {.full = full}), svg);
    }
  }
}

}  // namespace
}  // namespace folio
