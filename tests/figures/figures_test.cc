#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "folio/base/rng.h"
#include "folio/base/visible_text.h"
#include "folio/plot/curves.h"
#include "folio/plot/heatmap.h"
#include "folio/plot/token_strip.h"
#include "folio/report/report.h"
#include "tests/figures/figure_checks.h"

namespace folio {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr uint32_t kLightPage = 0xFFFFFF, kDarkPage = 0x16181C;

class Figures : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = WhyNoRenderer(); !why.empty()) GTEST_SKIP() << why;
  }
};

// Rows that sum to 1 and look back only, with `first` of each on the first column.
Heatmap Attention(int64_t size, float first) {
  const CounterRng rng(11, static_cast<uint64_t>(size));
  Heatmap map{.title = "Layer 5, head 1",
              .caption = "previous token 0.83",
              .rows = size,
              .columns = size,
              .row_axis = "query",
              .column_axis = "key"};
  static const char* kTokens[] = {"The", "cat", "sat", "on", "journey", ".", "unbelievably"};
  for (int64_t r = 0; r < size; ++r) {
    float left = r == 0 ? 0 : 1 - first;
    map.values.push_back(1 - left);
    for (int64_t c = 1; c < size; ++c) {
      const float share = c == r ? left : left * static_cast<float>(rng.Uniform(r * size + c));
      map.values.push_back(c > r ? kNan : share);
      if (c <= r) left -= share;
    }
    map.row_labels.push_back(kTokens[r % 7]);
  }
  map.column_labels = map.row_labels;
  return map;
}

Heatmap Signed(int64_t rows, int64_t columns) {
  const CounterRng rng(5, static_cast<uint64_t>(rows * 1000 + columns));
  Heatmap map{.title = "signed", .rows = rows, .columns = columns};
  for (int64_t i = 0; i < rows * columns; ++i) {
    map.values.push_back(static_cast<float>(rng.Normal(static_cast<uint64_t>(i))));
  }
  for (int64_t i = 0; i < rows; ++i) map.row_labels.push_back(fmt::format("{}", i));
  for (int64_t i = 0; i < columns; ++i) map.column_labels.push_back(fmt::format("{}", i));
  return map;
}

TEST_F(Figures, AttentionOfAnyLengthIsSound) {
  for (const int64_t size : {1, 2, 6, 24, 63, 64, 201}) {
    const std::string svg = HeatmapSvg(Attention(size, 0.6F), {});
    EXPECT_EQ(CheckFigure(svg, {"Layer 5, head 1", "previous token 0.83", "query", "key", "The"}),
              "")
        << size;
  }
  EXPECT_EQ(CheckFigure(HeatmapSvg(Attention(6, 0.6F), {}),
                        {"cat", "sat", "on", "journey", ".", "0.60", "1.00", "masked"}),
            "");
}

TEST_F(Figures, ALongTextIsSoundAndSmall) {
  const std::string svg = HeatmapSvg(Attention(1024, 0.3F), {.scale = HeatScale::kLog});
  EXPECT_LT(svg.size(), 1500000U);
  EXPECT_EQ(CheckFigure(svg, {"query", "key", "logarithmic scale"}), "");
}

TEST_F(Figures, OtherScalesAndSharesAreSound) {
  const Heatmap map = Attention(12, 0.7F);
  EXPECT_EQ(CheckFigure(HeatmapSvg(map, {.per_row = true}),
                        {"relative to the largest value of each row"}),
            "");
  double share = 0;
  EXPECT_EQ(CheckFigure(HeatmapSvg(WithoutFirstColumn(map, &share), {}), {}), "");
  EXPECT_NEAR(share, 0.7, 1e-6);
  EXPECT_EQ(CheckFigure(HeatmapSvg(map, {.scale = HeatScale::kLinear, .numbers = false}), {}), "");
}

TEST_F(Figures, SignedMapsOfAnyShapeAreSound) {
  for (const auto& [rows, columns] :
       {std::pair<int64_t, int64_t>{8, 8}, {1, 40}, {40, 1}, {3, 20}, {90, 64}, {1024, 5}}) {
    EXPECT_EQ(CheckFigure(HeatmapSvg(Signed(rows, columns), {}), {"signed", "0"}), "")
        << rows << " x " << columns;
  }
}

TEST_F(Figures, StrangeLabelsStayInTheirPlace) {
  Heatmap map = Attention(5, 0.4F);
  map.row_labels = {"", std::string(300, 'W'), "\xE4\xBD\xA0\xE5\xA5\xBD\xE4\xB8\x96\xE7\x95\x8C",
                    "\x01\xff\x7f\t\n", "<a href=\"b\">&amp;"};
  map.column_labels = map.row_labels;
  map.title = std::string(400, 'm') + " and some words more";
  map.caption = "a sentence " + std::string(90, '%') + " that goes on and on and on and on and on";
  map.row_axis = map.column_axis =
      "an axis with a name that is longer than the map is wide or high";
  EXPECT_EQ(CheckFigure(HeatmapSvg(map, {}), {"<a href=\"b\">&amp;"}), "");
}

TEST_F(Figures, GridsAreSound) {
  for (const auto& [size, across] :
       {std::pair<int64_t, int64_t>{1, 1}, {6, 4}, {24, 4}, {64, 12}, {200, 3}}) {
    std::vector<Heatmap> maps(static_cast<size_t>(across * across), Attention(size, 0.5F));
    for (size_t i = 0; i < maps.size(); ++i) maps[i].title = fmt::format("L{}", i);
    const std::string svg = HeatmapGridSvg(maps, across, "All heads", {}, {});
    EXPECT_LT(svg.size(), 600000U);
    EXPECT_EQ(CheckFigure(svg, {"All heads", "L0", fmt::format("L{}", maps.size() - 1)}), "")
        << size << " in " << across;
  }
  EXPECT_EQ(CheckFigure(HeatmapGridSvg({}, 3, "None", {}, {}), {"None"}), "");
}

// The colour in the middle of the cell (0, `column`) of a row of `columns` cells, which fills the
// rows from the frame down.
struct Cells {
  int64_t x, y, width, height;
};

Cells FrameOf(const std::string& svg) {
  // The key's frame is the last.
  const size_t at = svg.find("class=\"frame\"");
  double x = 0, y = 0, width = 0, height = 0;
  EXPECT_EQ(std::sscanf(svg.c_str() + at,
                        "class=\"frame\" x=\"%lf\" y=\"%lf\" width=\"%lf\" height=\"%lf\"", &x, &y,
                        &width, &height),
            4);
  return {std::lround(x), std::lround(y), std::lround(width), std::lround(height)};
}

std::vector<uint32_t> ColoursOfFirstRow(const std::string& svg, int64_t rows, int64_t columns) {
  const Cells cells = FrameOf(svg);
  const Picture picture = Render(svg);
  std::vector<uint32_t> colours;
  for (int64_t c = 0; c < columns; ++c) {
    colours.push_back(picture.Colour(cells.x + (2 * c + 1) * cells.width / (2 * columns),
                                     cells.y + cells.height / (2 * rows)));
  }
  return colours;
}

// `share` of the way from one colour to another, each channel.
uint32_t Mixed(uint32_t from, uint32_t to, double share) {
  uint32_t result = 0;
  for (const int shift : {16, 8, 0}) {
    const double a = from >> shift & 255, b = to >> shift & 255;
    result |= static_cast<uint32_t>(std::lround(a + (b - a) * share)) << shift;
  }
  return result;
}

void ExpectNear(uint32_t colour, uint32_t expected, const std::string& what) {
  for (const int shift : {16, 8, 0}) {
    EXPECT_NEAR(static_cast<int>(colour >> shift & 255), static_cast<int>(expected >> shift & 255),
                3)
        << what << fmt::format(": {:06X}, expected {:06X}", colour, expected);
  }
}

// 0, a quarter, a half and full colour, small as rectangles and large as a picture.
TEST_F(Figures, ZeroIsThePageAndAHalfIsAHalfInBothModesAndBothWaysOfDrawing) {
  for (const bool large : {false, true}) {
    for (const float sign : {1.0F, -1.0F}) {
      const int64_t repeat = large ? 17 : 1, columns = 4 * repeat, rows = large ? 71 : 4;
      Heatmap map{.rows = rows, .columns = columns};
      for (int64_t i = 0; i < rows * columns; ++i) {
        static constexpr float kValues[] = {0, 0.25F, 0.5F, 1};
        map.values.push_back(sign * kValues[i % columns / repeat]);
      }
      map.values.back() = -1;  // signed in any case
      const std::string svg = HeatmapSvg(map, {.numbers = false});
      ASSERT_EQ(svg.find("<mask") != std::string::npos, large);
      const auto light = ColoursOfFirstRow(svg, rows, 4);
      const auto dark = ColoursOfFirstRow(InDarkMode(svg), rows, 4);
      EXPECT_EQ(light[0], kLightPage);
      EXPECT_EQ(dark[0], kDarkPage);
      const uint32_t full_light = sign > 0 ? 0x08407A : 0x802D00;
      const uint32_t full_dark = sign > 0 ? 0x40A2E0 : 0xF07F2E;
      for (const auto& [i, share] : {std::pair<size_t, double>{1, 0.25}, {2, 0.5}, {3, 1}}) {
        const std::string what = fmt::format("large {} sign {} share {}", large, sign, share);
        ExpectNear(light[i], Mixed(kLightPage, full_light, share), what);
        ExpectNear(dark[i], Mixed(kDarkPage, full_dark, share), what);
      }
    }
  }
}

TEST_F(Figures, MaskedCellsAreHatchedAndOthersAreNot) {
  for (const int64_t size : {4, 70}) {
    Heatmap map{.rows = size, .columns = size};
    for (int64_t i = 0; i < size * size; ++i) {
      map.values.push_back(i % size < size / 2 ? 0 : kNan);
    }
    const std::string svg = HeatmapSvg(map, {.numbers = false});
    const Cells cells = FrameOf(svg);
    const Picture picture = Render(svg);
    int left = 0, right = 0;
    for (int64_t y = cells.y + 3; y < cells.y + cells.height - 3; ++y) {
      for (int64_t x = 3; x < cells.width / 2 - 3; ++x) {
        left += picture.Colour(cells.x + x, y) != kLightPage;
        right += picture.Colour(cells.x + cells.width / 2 + x, y) != kLightPage;
      }
    }
    EXPECT_EQ(left, 0);
    EXPECT_GT(right, cells.width * cells.height / 20) << size;
  }
}

TEST_F(Figures, EachCellOfAPictureHasSharpEdges) {
  Heatmap map{.rows = 70, .columns = 70};
  for (int64_t i = 0; i < 70 * 70; ++i) map.values.push_back(static_cast<float>((i + i / 70) % 2));
  const std::string svg = HeatmapSvg(map, {});
  const Cells cells = FrameOf(svg);
  ASSERT_EQ(cells.width % 70, 0);
  const Picture picture = Render(svg);
  const int64_t side = cells.width / 70;
  for (int64_t x = side; x < cells.width - side; ++x) {
    const bool full = (x / side + 1) % 2 == 1;
    EXPECT_EQ(picture.Colour(cells.x + x, cells.y + side + side / 2), full ? 0x08407AU : kLightPage)
        << x;
  }
}

const char* const kStrange[] = {"",
                                " the",
                                "\xE4\xBD\xA0\xE5\xA5\xBD",
                                "\xF0\x9F\x98\x80",
                                "\x01\xff",
                                "WWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWW",
                                "\xD0\xA9\xD0\xA9\xD0\xA9",
                                "<&>\"'",
                                "#+=~^@%"};

TEST_F(Figures, ScattersAreSound) {
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

TEST_F(Figures, BarsAreSound) {
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

TEST_F(Figures, TokenStripsAreSound) {
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

TEST_F(Figures, CurvesAreSound) {
  std::vector<Series> series(3, {"", {1, 2, 3, 40}, {4, 3.5, 3.1, 2.9}});
  for (size_t i = 0; i < series.size(); ++i) series[i].label = fmt::format("run {}", i);
  const CurvesOptions options{.title = "Loss", .x_label = "step", .y_label = "nats", .log_x = true};
  EXPECT_EQ(CheckFigure(CurvesSvg(series, options), {"Loss", "step", "nats", "run 0", "run 2"}),
            "");
}

TEST_F(Figures, PanelsAreSound) {
  std::vector<Panel> panels(4);
  for (size_t i = 0; i < panels.size(); ++i) {
    panels[i].options = {.title = fmt::format("panel {}", i), .x_label = "step", .y_label = "nats"};
    panels[i].series = {{"first", {1, 2, 3}, {4, 3.5, 3.1}}, {"second", {1, 2}, {3, 2}}};
  }
  EXPECT_EQ(CheckFigure(PanelsSvg(panels, {.title = "Runs"}),
                        {"Runs", "first", "second", "panel 0", "panel 3", "step", "nats"}),
            "");
}

TEST_F(Figures, SeveralFiguresOfAPageDoNotDisturbEachOther) {
  Heatmap map{.title = "Large", .rows = 70, .columns = 70};
  map.values.assign(70 * 70, 0.5F);
  map.values[1] = -1;
  const std::string large = HeatmapSvg(map, {});
  map = {.title = "Small", .rows = 1, .columns = 2, .values = {1, 0}};
  Report report{.title = "Two maps"};
  for (const std::string& svg : {large, HeatmapSvg(map, {}), large}) {
    report.parts.push_back({.drawing = [svg] { return svg; }});
  }
  const std::string html = ReportHtml(report);
  EXPECT_EQ(CheckPage(html, {"Large", "Small"}), "");
  const std::vector<std::string> figures = FiguresOf(html);
  ASSERT_EQ(figures.size(), 3U);
  EXPECT_EQ(Render(figures[0]).pixels, Render(large).pixels);
  EXPECT_EQ(Render(figures[2]).pixels, Render(large).pixels);
}

}  // namespace

}  // namespace folio
