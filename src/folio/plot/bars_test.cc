#include "folio/plot/bars.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <limits>
#include <vector>

namespace folio {
namespace {

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
