#include "folio/plot/heatmap.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "folio/plot/svg.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

Heatmap Map(int64_t rows, int64_t columns, std::vector<float> values) {
  return {.rows = rows, .columns = columns, .values = std::move(values)};
}

TEST(WithoutFirstColumn, SharesTheRestAndStatesWhatWasTaken) {
  double share = -1;
  Heatmap map = Map(3, 3, {1, NAN, NAN, 0.75F, 0.25F, NAN, 0.5F, 0.125F, 0.375F});
  map.row_labels = map.column_labels = {"a", "b", "c"};
  const Heatmap rest = WithoutFirstColumn(map, &share);
  EXPECT_DOUBLE_EQ(share, 0.625);  // of rows 1 and 2
  EXPECT_EQ(rest.rows, 3);
  EXPECT_EQ(rest.columns, 2);
  EXPECT_EQ(rest.row_labels.size(), 3U);
  EXPECT_EQ(rest.column_labels, (std::vector<std::string>{"b", "c"}));
  for (const size_t i : {0, 1, 3}) EXPECT_TRUE(std::isnan(rest.values[i])) << i;
  EXPECT_EQ(rest.values[2], 1);
  EXPECT_EQ(rest.values[4], 0.25F);
  EXPECT_EQ(rest.values[5], 0.75F);
}

TEST(WithoutFirstColumn, RowsWithNothingLeftAreMasked) {
  double share = -1;
  const Heatmap rest = WithoutFirstColumn(Map(3, 2, {0, 0, 1, 0, 0, 0}), &share);
  EXPECT_EQ(share, 1);  // row 2 is all zeros and does not count
  for (const float v : rest.values) EXPECT_TRUE(std::isnan(v));
  EXPECT_EQ(WithoutFirstColumn(Map(1, 1, {1}), &share).values.size(), 0U);
  EXPECT_EQ(share, 0);
}

TEST(HeatmapSvg, EachRowMayHaveItsOwnFullColour) {
  const Heatmap map = Map(3, 2, {4, 2, 0.5F, 1, 0, 0});
  const auto cells = [&](bool per_row, const char* opacity) {
    const HeatmapOptions options{.scale = HeatScale::kLinear, .per_row = per_row, .full = 8};
    return Count(HeatmapSvg(map, options), fmt::format("fill-opacity=\"{}\"", opacity));
  };
  // None of the key's shades is one of these.
  EXPECT_EQ(cells(false, "0.5"), 1U);
  EXPECT_EQ(cells(false, "0.25"), 1U);
  EXPECT_EQ(cells(false, "1"), 0U);
  EXPECT_EQ(cells(true, "0.5"), 2U);
  EXPECT_EQ(cells(true, "1"), 2U);
  EXPECT_EQ(cells(true, "0"), 2U);
}

TEST(Pooled, KeepsTheLargestOfEachBlock) {
  const Heatmap map{.rows = 3,
                    .columns = 5,
                    .values = {0.1F, -0.9F, NAN, NAN, 0.3F,  //
                               0.2F, 0.3F, NAN, NAN, 0.2F,   //
                               NAN, 0.0F, 0.5F, 0.4F, NAN}};
  const Heatmap pooled = Pooled(map, 1, 2);
  EXPECT_EQ(pooled.rows, 3);
  EXPECT_EQ(pooled.columns, 3);
  EXPECT_EQ(pooled.values[0], -0.9F);
  EXPECT_TRUE(std::isnan(pooled.values[1]));
  EXPECT_EQ(pooled.values[2], 0.3F);
  EXPECT_EQ(pooled.values[6], 0);
  EXPECT_EQ(pooled.values[7], 0.5F);
  EXPECT_TRUE(std::isnan(pooled.values[8]));
  EXPECT_EQ(Pooled(map, 3, 5).values, std::vector<float>{-0.9F});
}

TEST(Pooled, KeepsTheLargestOfEachSquareAndMasksWhatIsAllMasked) {
  Heatmap map;
  map.rows = map.columns = 5;
  for (int i = 0; i < 25; ++i) {
    map.values.push_back(i % 5 > i / 5 ? NAN : static_cast<float>(i));
  }
  EXPECT_EQ(PoolingStep(5, 5), 1);
  EXPECT_EQ(PoolingStep(5, 4), 2);
  EXPECT_EQ(PoolingStep(5, 1), 5);
  const Heatmap small = Pooled(map, 2, 2);
  ASSERT_EQ(small.rows, 3);
  ASSERT_EQ(small.columns, 3);
  EXPECT_EQ(small.values[0], 6);
  EXPECT_TRUE(std::isnan(small.values[1]));
  EXPECT_EQ(small.values[3 + 1], 18);
  EXPECT_EQ(small.values[6 + 2], 24);
}

TEST(HeatmapSvg, CellsAreRectanglesUntilThereAreTooMany) {
  const std::string small = HeatmapSvg(Map(50, 80, std::vector<float>(4000, 1)), {});
  EXPECT_EQ(Count(small, "<rect class=\"plus\""), 4000U + 40);  // and the key's
  EXPECT_EQ(Count(small, "<mask"), 0U);
  const std::string large = HeatmapSvg(Map(50, 81, std::vector<float>(4050, 1)), {});
  EXPECT_EQ(Count(large, "<mask"), 1U);
  EXPECT_EQ(Count(large, "data:image/png;base64,"), 1U);
  std::vector<float> values(4050, 1);
  values[3] = -1;
  values[4] = NAN;
  EXPECT_EQ(Count(HeatmapSvg(Map(50, 81, values), {}), "<mask"), 3U);
}

TEST(HeatmapSvg, NumbersStandInCellsThatHoldThem) {
  const Heatmap map = Map(1, 3, {0.984F, -0.001F, NAN});
  const std::string svg = HeatmapSvg(map, {});
  EXPECT_EQ(Count(svg, ">0.98</text>"), 1U);
  EXPECT_EQ(Count(svg, ">0.00</text>"), 1U);
  EXPECT_EQ(Count(svg, "nan"), 0U);
  EXPECT_EQ(Count(HeatmapSvg(map, {.numbers = false}), ">0.98</text>"), 0U);
  EXPECT_EQ(Count(HeatmapSvg(Map(40, 40, std::vector<float>(1600, 1)), {}), "on-full\""), 0U);
  // As many digits as the magnitude of the values needs.
  EXPECT_EQ(Count(HeatmapSvg(Map(1, 2, {123.4F, -56.7F}), {}),
                  ">\xE2\x88\x92"
                  "57</text>"),
            1U);
  EXPECT_EQ(Count(HeatmapSvg(Map(1, 1, {0.0123F}), {}), ">0.012</text>"), 1U);
  EXPECT_EQ(Count(HeatmapSvg(Map(1, 1, {1e9F}), {}), "on-full\""), 0U);
}

TEST(HeatmapSvg, CellsTellTheirValue) {
  Heatmap map = Map(1, 2, {0.123456F, 1});
  map.row_axis = "query";
  map.row_labels = {"cat"};
  EXPECT_EQ(Count(HeatmapSvg(map, {}), "<title>query 0 cat, column 0: 0.1235</title>"), 1U);
}

TEST(HeatmapSvg, LabelsAreThinnedAndTurnedWhereTheyAreClose) {
  Heatmap map = Map(2, 2, {1, 0, 0, 1});
  map.row_labels = map.column_labels = {"a", "b"};
  EXPECT_EQ(Count(HeatmapSvg(map, {}), "rotate(-90)"), 0U);
  map.column_labels[1] = "wider than a cell";
  EXPECT_EQ(Count(HeatmapSvg(map, {}), "rotate(-90)"), 2U);
  map = Map(320, 1, std::vector<float>(320, 1));
  for (int i = 0; i < 320; ++i) map.row_labels.push_back("name" + std::to_string(i));
  const std::string svg = HeatmapSvg(map, {.numbers = false});
  EXPECT_EQ(Count(svg, ">name0</text>"), 1U);
  EXPECT_EQ(Count(svg, ">name1</text>"), 0U);
  EXPECT_EQ(Count(svg, ">name10</text>"), 1U);
  EXPECT_EQ(Count(svg, ">name"), 32U);
}

TEST(HeatmapSvg, SingleCharactersStandUpright) {
  Heatmap map = Map(1, 44, std::vector<float>(44, 1));
  for (int i = 0; i < 44; ++i) map.column_labels.emplace_back(1, static_cast<char>('A' + i % 20));
  EXPECT_EQ(Count(HeatmapSvg(map, {.numbers = false}), "rotate(-90)"), 0U);
  for (std::string& label : map.column_labels) label = "\xE6\x97\xA5";
  EXPECT_EQ(Count(HeatmapSvg(map, {.numbers = false}), "rotate(-90)"), 0U);
}

TEST(HeatmapSvg, OddMapsAreFigures) {
  for (const bool aside : {false, true}) {
    for (const bool per_row : {false, true}) {
      const HeatmapOptions options{.per_row = per_row};
      for (Heatmap map :
           {Map(0, 0, {}), Map(0, 3, {}), Map(3, 0, {}), Map(1, 1, {1}), Map(2, 2, {0, 0, 0, 0}),
            Map(2, 2, {NAN, NAN, NAN, NAN}), Map(1, 3, {5, 5, 5}), Map(3, 1, {-1, -1, -1}),
            Map(1, 2, {INFINITY, -INFINITY}), Map(1, 2, {3.4e38F, -3.4e38F}),
            Map(1, 2, {1e-45F, 0})}) {
        double share = 0;
        if (aside && map.columns > 0) map = WithoutFirstColumn(map, &share);
        const std::string svg = HeatmapSvg(map, options);
        EXPECT_TRUE(svg.ends_with("</svg>\n"));
        EXPECT_EQ(HeatmapSvg(map, options), svg);
        const std::string grid = HeatmapGridSvg(std::span(&map, 1), 3, "", {}, options);
        EXPECT_TRUE(grid.ends_with("</svg>\n"));
      }
    }
  }
  EXPECT_EQ(Count(HeatmapSvg(Map(0, 0, {}), {}), "no data"), 1U);
}

TEST(HeatmapSvg, WrongSizesAreRefused) {
  EXPECT_TRUE(Contains(ErrorOf(
                           [&] {
                             HeatmapSvg(Map(2, 2, {1, 2, 3}), {});
                           },
                           ErrorKind::kUsage),
                       "do not fill"));
  Heatmap map = Map(1, 2, {1, 2});
  map.column_labels = {"one"};
  EXPECT_TRUE(Contains(ErrorOf([&] { HeatmapSvg(map, {}); }, ErrorKind::kUsage),
                       "2 values, 0 and 1 labels"));
  const Heatmap wrong = Map(2, 3, {1});
  double share = 0;
  ErrorOf([&] { WithoutFirstColumn(wrong, &share); }, ErrorKind::kUsage);
  ErrorOf([&] { HeatmapGridSvg({&wrong, 1}, 1, "", {}, {}); }, ErrorKind::kUsage);
  ErrorOf([&] { HeatmapGridSvg({}, 0, "", {}, {}); }, ErrorKind::kUsage);
}

TEST(HeatmapGridSvg, OneKeyForAll) {
  std::vector<Heatmap> maps = {Map(1, 1, {0.5F}), Map(2, 2, {0, 0.25F, NAN, 1})};
  std::string svg = HeatmapGridSvg(maps, 2, "grid", {}, {});
  EXPECT_EQ(Count(svg, "full colour: 1, square-root scale"), 1U);
  EXPECT_EQ(Count(svg, ">masked</text>"), 1U);
  svg = HeatmapGridSvg(maps, 2, "grid", {}, {.full = 2});
  EXPECT_EQ(Count(svg, "full colour: 2"), 1U);
  EXPECT_EQ(Count(svg, ">2.0</text>"), 1U);
  EXPECT_EQ(Count(svg, "class=\"minus\""), 0U);
  maps[0].values[0] = -1;
  EXPECT_GT(Count(HeatmapGridSvg(maps, 2, "grid", {}, {}), "class=\"minus\""), 0U);
}

TEST(HeatmapGridSvg, AWeakMapLooksWeak) {
  // The pictures of a weak map beside a strong one differ from those of the weak map by itself.
  const Heatmap weak = Map(1, 2, {0.01F, 0.001F}), strong = Map(1, 2, {1, 0.1F});
  const auto pictures = [](const std::vector<Heatmap>& maps) {
    const std::string svg = HeatmapGridSvg(maps, 2, "", {}, {});
    std::vector<std::string> found;
    const std::string begin = "base64,";
    for (size_t at = svg.find(begin); at != std::string::npos; at = svg.find(begin, at + 1)) {
      found.push_back(svg.substr(at, svg.find('"', at) - at));
    }
    return found;
  };
  const auto alone = pictures({weak, weak}), beside = pictures({strong, weak});
  ASSERT_EQ(beside.size(), 2U);
  EXPECT_EQ(beside[0], alone[0]);
  EXPECT_NE(beside[1], alone[1]);
}

TEST(HeatmapGridSvg, CellsWithRoomHaveLabels) {
  Heatmap map = Map(2, 3, {0, 1, 2, 3, 4, 5});
  map.title = "head";
  map.row_labels = {"upper", "lower"};
  map.column_labels = {"left", "middle", "right"};
  const std::vector<Heatmap> maps(5, map);
  std::string svg = HeatmapGridSvg(maps, 2, "grid", {}, {});
  EXPECT_EQ(Count(svg, ">upper</text>"), 1U);  // once for all
  EXPECT_EQ(Count(svg, ">middle</text>"), 1U);
  std::vector<Heatmap> two = maps;
  two[4].row_labels[0] = two[4].column_labels[0] = "other";  // the first of the last row
  svg = HeatmapGridSvg(two, 2, "grid", {"a note"}, {});
  EXPECT_EQ(Count(svg, ">lower</text>"), 2U);
  EXPECT_EQ(Count(svg, ">other</text>"), 2U);
  EXPECT_EQ(Count(svg, ">a note</text>"), 1U);
  for (const int64_t T : {32, 33}) {  // enlarged, and not
    Heatmap small = Map(T, T, std::vector<float>(static_cast<size_t>(T * T), 1));
    small.row_labels = small.column_labels =
        std::vector<std::string>(static_cast<size_t>(T), "token");
    svg = HeatmapGridSvg(std::vector{small, map}, 8, "", {}, {});
    EXPECT_EQ(Count(svg, ">token</text>"), T == 32 ? 64U : 0U);
  }
}

TEST(HeatmapGridSvg, LargeMapsArePooled) {
  // One bright cell of a map far larger than its area must still be visible.
  std::vector<float> values(1000 * 1000, 0);
  const std::string dark = HeatmapGridSvg(std::vector{Map(1000, 1000, values)}, 12, "", {}, {});
  values[777 * 1000 + 333] = 1;
  const std::string bright = HeatmapGridSvg(std::vector{Map(1000, 1000, values)}, 12, "", {}, {});
  EXPECT_EQ(Count(dark, "data:image"), 0U);
  EXPECT_EQ(Count(bright, "data:image"), 1U);
  EXPECT_LT(bright.size(), 20000U);
}

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
  const std::vector<Heatmap> maps = {Map(1, 1, {0.125F}), Map(1, 1, {0}), Map(1, 1, {0.5F})};
  EXPECT_EQ(RangeOf(maps, {}).full, 0.5);
  EXPECT_EQ(RangeOf(maps, {.per_row = true}).full, 1);
  EXPECT_EQ(Count(HeatmapGridSvg(maps, 3, "", {}, {}), "full colour: 0.5, square-root scale"), 1U);
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
