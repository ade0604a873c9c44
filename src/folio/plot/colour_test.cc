#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "folio/plot/shades.h"

namespace folio {
namespace {

// Fills of "light" and "dark" style of a class, from the style that every figure has.
std::array<uint32_t, 2> FillsOf(const std::string& name) {
  const std::string svg = SvgWriter(300, 200, "").Finish();
  std::array<uint32_t, 2> fills = {};
  size_t at = 0;
  for (uint32_t& fill : fills) {
    const std::string begin = "." + name + "{fill:#";
    at = svg.find(begin, at);
    EXPECT_NE(at, std::string::npos) << name;
    at += begin.size();
    const std::string digits = svg.substr(at, svg.find('}', at) - at);
    for (const char c : digits) {
      fill = fill << 4 | static_cast<uint32_t>(std::stoi(std::string(1, c), nullptr, 16));
      if (digits.size() == 3) fill = fill << 4 | (fill & 15);
    }
  }
  return fills;
}

double Channel(uint32_t colour, int shift) {
  return (colour >> shift & 255) / 255.0;
}

// Relative luminance (WCAG 2.2) of `area` over `page` at an opacity.
double Luminance(uint32_t page, uint32_t area, double opacity) {
  const auto linear = [&](int shift) {
    const double c = Channel(page, shift) * (1 - opacity) + Channel(area, shift) * opacity;
    return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(16) + 0.7152 * linear(8) + 0.0722 * linear(0);
}

double Contrast(double a, double b) {
  return (std::max(a, b) + 0.05) / (std::min(a, b) + 0.05);
}

TEST(TextOnClass, IsReadableOnEveryShadeInBothModes) {
  const auto page = FillsOf("page"), pale = FillsOf("on-pale"), full = FillsOf("on-full");
  for (const char* area : {"plus", "minus"}) {
    const auto fill = FillsOf(area);
    for (size_t mode : {0, 1}) {
      for (int i = 0; i <= 100; ++i) {
        const double shade = i / 100.0;
        const uint32_t ink = TextOnClass(shade) == "on-full" ? full[mode] : pale[mode];
        EXPECT_EQ(TextOnClass(shade), TextOnClass(-shade));
        EXPECT_GT(Contrast(Luminance(page[mode], fill[mode], shade), Luminance(ink, ink, 1)), 4.5)
            << area << " " << mode << " " << shade;
      }
      EXPECT_GT(
          Contrast(Luminance(page[mode], fill[mode], 0), Luminance(page[mode], fill[mode], 1)), 5);
    }
  }
}

TEST(Shade, FollowsItsScale) {
  const HeatRange linear{HeatScale::kLinear, false, 2}, root{HeatScale::kSqrt, false, 2},
      log{HeatScale::kLog, false, 2};
  EXPECT_DOUBLE_EQ(Shade(0.5, linear), 0.25);
  EXPECT_DOUBLE_EQ(Shade(0.5, root), 0.5);
  EXPECT_DOUBLE_EQ(Shade(0.2, log), 0.75);
  EXPECT_NEAR(Shade(0.0002, log), 0, 1e-12);  // four decades
  EXPECT_NEAR(Shade(0.00021, log), 0.0053, 1e-4);
  for (const HeatRange& range : {linear, root, log}) {
    EXPECT_EQ(Shade(0, range), 0);
    EXPECT_EQ(Shade(2, range), 1);
    EXPECT_EQ(Shade(200, range), 1);
    EXPECT_EQ(Shade(1e-300, range), range.scale == HeatScale::kSqrt  ? std::sqrt(5e-301)
                                    : range.scale == HeatScale::kLog ? 0
                                                                     : 5e-301);
    EXPECT_TRUE(std::isnan(Shade(NAN, range)));
    EXPECT_TRUE(std::isnan(Shade(INFINITY, range)));
  }
}

TEST(Shade, SignedValuesAreLinear) {
  for (const HeatScale scale : {HeatScale::kLinear, HeatScale::kSqrt, HeatScale::kLog}) {
    const HeatRange range{scale, true, 4};
    EXPECT_EQ(Shade(-1, range), -0.25);
    EXPECT_EQ(Shade(1, range), 0.25);
    EXPECT_EQ(Shade(-5, range), -1);
  }
}

HeatRange RangeOfOne(const Heatmap& map, const HeatmapOptions& options) {
  return RangeOf(std::span(&map, 1), options);
}

TEST(RangeOf, HoldsEveryFiniteValue) {
  EXPECT_EQ(RangeOfOne({.values = {0.5F, NAN, INFINITY, 0.25F}}, {}).full, 0.5);
  EXPECT_FALSE(RangeOfOne({.values = {0.5F, NAN}}, {}).is_signed);
  EXPECT_TRUE(RangeOfOne({.values = {0.5F, -0.75F}}, {}).is_signed);
  EXPECT_EQ(RangeOfOne({.values = {0.5F, -0.75F}}, {}).full, 0.75);
  EXPECT_EQ(RangeOfOne({.values = {0.5F}}, {.full = 3}).full, 3);
  EXPECT_EQ(RangeOfOne({.values = {0.5F}}, {.full = 0}).full, 0.5);
  for (const double full : {-1.0, 1e-320, 1e308, static_cast<double>(INFINITY), std::nan("")}) {
    EXPECT_EQ(RangeOfOne({.values = {0.5F}}, {.full = full}).full, 0.5);
  }
  EXPECT_EQ(RangeOfOne({.values = {0, 0}}, {}).full, 1);
  EXPECT_EQ(RangeOfOne({.values = {NAN}}, {}).full, 1);
  EXPECT_EQ(RangeOfOne({}, {}).full, 1);
}

TEST(RangeOf, ValuesThatAreAboutEqualAreNotFullColour) {
  EXPECT_EQ(RangeOfOne({.values = {0.25F, 0.25F, NAN}}, {}).full, 0.5);
  EXPECT_EQ(RangeOfOne({.values = {4, 3.5F}}, {}).full, 8);
  EXPECT_EQ(RangeOfOne({.values = {4, 3}}, {}).full, 4);
  EXPECT_EQ(RangeOfOne({.values = {1, -1}}, {}).full, 1);
  EXPECT_EQ(RangeOfOne({.values = {1, 1}}, {.full = 1}).full, 1);
}

TEST(RangeOf, OfSeveralMapsIsOne) {
  const std::vector<Heatmap> maps = {{.values = {0.125F}}, {.values = {0}}, {.values = {0.5F}}};
  EXPECT_EQ(RangeOf(maps, {}).full, 0.5);
  EXPECT_EQ(RangeOf(maps, {.per_row = true}).full, 1);
  EXPECT_EQ(MeaningOf(RangeOf(maps, {}), false), "full colour is 0.5, square-root scale");
}

// Returns ranges of every scale, signed and not.
std::vector<HeatRange> RangesOf(double full) {
  std::vector<HeatRange> ranges;
  for (const HeatScale scale : {HeatScale::kLinear, HeatScale::kSqrt, HeatScale::kLog}) {
    for (const bool is_signed : {false, true}) ranges.push_back({scale, is_signed, full});
  }
  return ranges;
}

TEST(KeyTicks, RiseAndStayInTheRange) {
  for (const double full : {1.0, 0.83, 3e-7, 1e-45, 3.4e38, 17.0}) {
    for (const HeatRange& range : RangesOf(full)) {
      const std::vector<Tick> ticks = KeyTicks(range);
      ASSERT_GE(ticks.size(), 2U) << full;
      for (size_t i = 0; i < ticks.size(); ++i) {
        EXPECT_LE(std::abs(ticks[i].value), full * 1.000001);
        EXPECT_TRUE(i == 0 || ticks[i - 1].value < ticks[i].value);
      }
      const bool log = range.scale == HeatScale::kLog && !range.is_signed;
      EXPECT_EQ(std::ranges::any_of(ticks, [](const Tick& t) { return t.label == "0"; }), !log);
    }
  }
}

TEST(KeyTicks, LabelsDoNotTouch) {
  int ticks_seen = 0;
  for (double full = 1e-6; full < 1e7; full *= 1.37) {
    for (const HeatRange& range : RangesOf(full)) {
      double end = -100;
      for (const Tick& tick : KeyTicks(range)) {
        const double shade = Shade(tick.value, range);
        const double middle = 240 * (range.is_signed ? (shade + 1) / 2 : shade);
        const double half = TextWidth(tick.label, 10) / 2;
        EXPECT_LT(end, middle - half) << full << " " << tick.label;
        end = middle + half;
        ++ticks_seen;
      }
    }
  }
  EXPECT_GT(ticks_seen, 96 * 6 * 2);
}

}  // namespace
}  // namespace folio
