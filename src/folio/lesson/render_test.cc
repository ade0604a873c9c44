// The renderers on walks made for the purpose: what they print is what a person, a program or a
// browser gets.
#include "folio/lesson/render.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>

#include "folio/base/strings.h"
#include "folio/lesson/step_table.h"
#include "folio/lesson/step_values.h"
#include "folio/term/terminal_text.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

Walkthrough OneStep(StepValues values, FigureKind figure = FigureKind::kHeatmap) {
  return {.topic = "test",
          .title = "A walk",
          .intro = "What it is about.",
          .steps = {{.name = "scores & more",
                     .formula = "scores = x xᵀ / √512",
                     .values = std::move(values),
                     .why = "Because √d is <so>.",
                     .figure = figure}}};
}

StepValues SmallValues() {
  return {.shape = {2, 3},
          .values = {0.25, -10, NAN, INFINITY, -INFINITY, 0.1F},
          .row_labels = {"a", "long row"},
          .column_labels = {"x", "column", "·the"},
          .row_axis = "query",
          .column_axis = "key"};
}

StepValues Large(int64_t rows, int64_t columns) {
  StepValues values{.shape = {rows, columns}};
  for (int64_t i = 0; i < rows * columns; ++i) values.values.push_back(static_cast<double>(i));
  values.digits = 0;
  values.row_labels = Numbered(rows, "r");
  values.column_labels = Numbered(columns, "c");
  return values;
}

// The line of `text` that holds `part`.
std::string LineWith(const std::string& text, const std::string& part) {
  for (const std::string& line : Split(text, '\n')) {
    if (Contains(line, part)) return line;
  }
  return "";
}

TEST(WalkthroughText, ColumnsAreAlignedAndMaskedCellsAreDots) {
  EXPECT_EQ(WalkthroughText(OneStep(SmallValues()), {}),
            "A walk\n"
            "\n"
            "What it is about.\n"
            "\n"
            "1. scores & more  2 × 3\n"
            "   scores = x xᵀ / √512\n"
            "   query \\ key         x    column      ·the\n"
            "   a              0.2500  -10.0000         ·\n"
            "   long row          inf      -inf    0.1000\n"
            "   Because √d is <so>.\n");
}

TEST(WalkthroughText, AsciiTerminalsGetNothingElse) {
  Walkthrough walk = OneStep(SmallValues());
  walk.steps[0].section = "Ü";
  const std::string text = WalkthroughText(walk, {.utf8 = false});
  EXPECT_TRUE(Contains(text, "scores = x x^T / sqrt(512)\n")) << text;
  EXPECT_TRUE(Contains(text, "Because sqrt(d) is <so>.\n")) << text;
  EXPECT_TRUE(LineWith(text, "-10.0000").ends_with("         .")) << text;
  EXPECT_TRUE(LineWith(text, "query").ends_with("_the")) << text;
  for (const char c : text) EXPECT_LT(static_cast<unsigned char>(c), 0x80);
}

TEST(WalkthroughText, ColourOnlyWhereAskedAndHeatOnlyWhereWanted) {
  EXPECT_FALSE(Contains(WalkthroughText(OneStep(SmallValues()), {}), "\x1b"));
  const std::string coloured = WalkthroughText(OneStep(SmallValues()), {.colour = true});
  EXPECT_TRUE(Contains(coloured, "\x1b[48;5;202;38;5;16m -10.0000 \x1b[0m")) << coloured;
  std::string plain = std::regex_replace(coloured, std::regex("\x1b\\[[0-9;]*m"), "");
  plain = std::regex_replace(plain, std::regex(" +\n"), "\n");
  EXPECT_EQ(plain, WalkthroughText(OneStep(SmallValues()), {}));
  StepValues cool = SmallValues();
  cool.heat = false;
  EXPECT_FALSE(Contains(WalkthroughText(OneStep(cool), {.colour = true}), "\x1b[48;5"));
}

TEST(WalkthroughText, ZeroHasNoColourAndSignsDiffer) {
  StepValues row{.shape = {4}, .values = {0, 4, -4, 0.3}};
  const std::string text = WalkthroughText(OneStep(row), {.colour = true});
  EXPECT_TRUE(Contains(text, "  0.0000 \x1b[48;5;33;38;5;16m  4.0000 ")) << text;
  EXPECT_TRUE(Contains(text, "\x1b[48;5;202;38;5;16m -4.0000 ")) << text;
  EXPECT_TRUE(Contains(text, "\x1b[38;5;33m  0.3000")) << text;  // letters only
}

TEST(WalkthroughText, WideTablesLoseTheirMiddleAndSayHowMuch) {
  for (const int width : {40, 61, 80, 120}) {
    const std::string text = WalkthroughText(OneStep(Large(3, 101)), {.width = width});
    for (const std::string& line : Split(text, '\n')) {
      EXPECT_LE(DisplayWidth(line), width) << line;
    }
    const std::string row = LineWith(text, "   r1");
    EXPECT_TRUE(Contains(row, " 101 ")) << row;
    EXPECT_TRUE(row.ends_with(" 201")) << row;
    EXPECT_TRUE(Contains(row, "…")) << row;
    const std::regex number(" [12][0-9][0-9]\\b");
    const auto shown =
        std::distance(std::sregex_iterator(row.begin(), row.end(), number), std::sregex_iterator());
    EXPECT_TRUE(Contains(text, "(" + std::to_string(101 - shown) + " columns in the middle left"))
        << text;
  }
}

TEST(WalkthroughText, LongTablesLoseTheirMiddleRows) {
  const std::string text = WalkthroughText(OneStep(Large(50, 2)), {.rows = 7});
  EXPECT_TRUE(Contains(text, "   r2 "));
  EXPECT_FALSE(Contains(text, "   r3 "));
  EXPECT_TRUE(Contains(text, "   r47"));
  EXPECT_FALSE(Contains(text, "   r46"));
  EXPECT_TRUE(Contains(text, "(44 rows in the middle left out)")) << text;
  EXPECT_FALSE(Contains(WalkthroughText(OneStep(Large(7, 2)), {.rows = 7}), "left out"));
}

TEST(WalkthroughText, BarsAreAsLongAsTheirNumbers) {
  StepValues row{.shape = {3}, .values = {0.5, 1, NAN}, .column_labels = {"half", "一", "no"}};
  const std::string text = WalkthroughText(OneStep(row, FigureKind::kBars), {});
  std::string full;
  for (int i = 0; i < 20; ++i) full += "█";
  EXPECT_TRUE(Contains(text, "   half  0.5000  " + full + "\n")) << text;
  EXPECT_TRUE(Contains(text, "   一    1.0000  " + full + full + "\n")) << text;
  EXPECT_TRUE(Contains(text, "   no         ·\n")) << text;
  row.values[0] = -1;
  EXPECT_FALSE(Contains(WalkthroughText(OneStep(row, FigureKind::kBars), {}), "█"));
}

TEST(WalkthroughText, LabelsFromAnywhereCannotHarmTheTerminal) {
  StepValues values{.shape = {1, 2},
                    .values = {1, 2},
                    .row_labels = {"\x1b[31m\x07"},
                    .column_labels = {"\xFF", "a very very long label\n"}};
  for (const bool utf8 : {true, false}) {
    const std::string text = WalkthroughText(OneStep(values), {.utf8 = utf8});
    EXPECT_FALSE(Contains(text, "\x1b"));
    EXPECT_FALSE(Contains(text, "\x07"));
    EXPECT_FALSE(Contains(text, "\xFF"));
    EXPECT_FALSE(Contains(text, "long label"));
  }
}

TEST(CellText, SmallAndLargeNumbersKeepTheirDigits) {
  StepValues values{.shape = {6}, .values = {2.0611e-9, 0.00006, -3e7, 0, NAN, -0.0}};
  EXPECT_EQ(CellText(values, 0, 0), "2e-09");
  EXPECT_EQ(CellText(values, 0, 1), "0.0001");
  EXPECT_EQ(CellText(values, 0, 2), "-3.0000e+07");
  EXPECT_EQ(CellText(values, 0, 3), "0.0000");
  EXPECT_EQ(CellText(values, 0, 4), "");
  EXPECT_EQ(CellText(values, 0, 5), "0.0000");
  values.scientific = true;
  EXPECT_EQ(CellText(values, 0, 0), "2.0611e-09");
  values.masks = false;
  EXPECT_EQ(CellText(values, 0, 4), "nan");
}

TEST(CutMiddle, KeepsBothEnds) {
  EXPECT_EQ(CutMiddle(3, 3), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(CutMiddle(4, 3), (std::vector<int64_t>{0, -1, 3}));
  EXPECT_EQ(CutMiddle(10, 6), (std::vector<int64_t>{0, 1, 2, -1, 8, 9}));
  EXPECT_EQ(LeftOut(CutMiddle(10, 6), 10), 5);
  EXPECT_EQ(LeftOut(CutMiddle(6, 6), 6), 0);
}

TEST(WalkthroughJson, HasTheSchemaAndNestsByShape) {
  const nlohmann::json json = nlohmann::json::parse(WalkthroughJson(OneStep(SmallValues())));
  EXPECT_EQ(json.at("schema"), 1);
  EXPECT_EQ(json.at("topic"), "test");
  EXPECT_EQ(json.at("title"), "A walk");
  EXPECT_EQ(json.at("intro"), "What it is about.");
  const nlohmann::json& step = json.at("steps").at(0);
  EXPECT_EQ(step.at("name"), "scores & more");
  EXPECT_EQ(step.at("formula"), "scores = x xᵀ / √512");
  EXPECT_EQ(step.at("why"), "Because √d is <so>.");
  EXPECT_EQ(step.at("shape"), nlohmann::json({2, 3}));
  EXPECT_EQ(step.at("values"), (nlohmann::json{{0.25, -10.0, nullptr}, {"inf", "-inf", 0.1}}));
  EXPECT_EQ(step.at("row_labels"), nlohmann::json({"a", "long row"}));
  EXPECT_EQ(step.at("column_labels").size(), 3);
}

TEST(WalkthroughJson, FloatsComeBackAndMasksAreNoNan) {
  StepValues values{.shape = {4}, .values = {0.13854758F, 1.0 / 3, NAN, 1e-45F}};
  values.masks = false;
  const std::string text = WalkthroughJson(OneStep(values));
  const nlohmann::json row = nlohmann::json::parse(text).at("steps").at(0).at("values");
  EXPECT_EQ(row.at(0).get<float>(), 0.13854758F);
  EXPECT_EQ(row.at(1).get<double>(), 1.0 / 3);
  EXPECT_EQ(row.at(2), "nan");
  EXPECT_EQ(row.at(3).get<float>(), 1e-45F);
  EXPECT_TRUE(Contains(text, "0.13854758,")) << text;
}

TEST(WalkthroughFigures, AreNamedForTheirSteps) {
  Walkthrough walk = OneStep(SmallValues());
  walk.steps.push_back({.name = "no figure", .values = SmallValues(), .figure = FigureKind::kNone});
  walk.steps.push_back({.name = "Σ of “all”",
                        .values = {.shape = {2}, .values = {1, 2}, .column_labels = {"a", "b"}},
                        .figure = FigureKind::kBars});
  walk.steps.push_back({.name = "curve",
                        .values = {.shape = {3, 1}, .values = {1, 4, 9}},
                        .figure = FigureKind::kCurves});
  const auto figures = WalkthroughFigures(walk);
  ASSERT_EQ(figures.size(), 3);
  EXPECT_EQ(figures[0].first, "test-01-scores-more.svg");
  EXPECT_EQ(figures[1].first, "test-03-of-all.svg");
  EXPECT_EQ(figures[2].first, "test-04-curve.svg");
  for (const auto& [name, svg] : figures) EXPECT_TRUE(Contains(svg, "<svg")) << name;
  EXPECT_TRUE(Contains(figures[0].second, "long row"));
  EXPECT_TRUE(Contains(figures[1].second, "2.0000"));
}

TEST(WalkthroughHtml, IsOnePageWithoutScriptsOrLinks) {
  const std::string html = WalkthroughHtml(OneStep(SmallValues()));
  EXPECT_TRUE(Contains(html, "scores &amp; more"));
  EXPECT_TRUE(Contains(html, "Because √d is &lt;so&gt;."));
  EXPECT_TRUE(Contains(html, ">-10.0000</td><td class=\"number\">·</td>")) << html;
  EXPECT_TRUE(Contains(html, "<svg"));
  EXPECT_FALSE(Contains(html, "<script"));
  EXPECT_FALSE(std::regex_search(html, std::regex("(src|href)=\"(https?:)?//")));
  EXPECT_FALSE(Contains(html, "@import"));
  EXPECT_FALSE(Contains(html, "url(http"));
}

TEST(WalkthroughHtml, NamesAndFormulasStandOnce) {
  for (const FigureKind figure : {FigureKind::kHeatmap, FigureKind::kNone}) {
    const std::string html = WalkthroughHtml(OneStep(SmallValues(), figure));
    EXPECT_EQ(Count(html, "scores &amp; more"), 1U) << "the heading";
    EXPECT_EQ(Count(html, "scores = x xᵀ"), 1U);
  }
}

TEST(WalkthroughHtml, LabelsAreNoMarkup) {
  StepValues values = SmallValues();
  values.row_labels[0] = "<script>";
  values.column_labels[0] = "</table>";
  const std::string html = WalkthroughHtml(OneStep(values));
  EXPECT_FALSE(Contains(html, "<script>"));
  EXPECT_TRUE(Contains(html, ">&lt;script&gt;</th>"));
  EXPECT_TRUE(Contains(html, ">&lt;/table&gt;</th>"));
}

TEST(WalkthroughHtml, LargeTablesAreCutToo) {
  const std::string html = WalkthroughHtml(OneStep(Large(100, 40), FigureKind::kNone));
  EXPECT_TRUE(Contains(html, "(37 rows in the middle left out)"));
  EXPECT_TRUE(Contains(html, "(9 columns in the middle left out)"));
  EXPECT_TRUE(Contains(html, "<details open>"));
}

TEST(TerminalText, WidthsAreOfCharactersNotBytes) {
  EXPECT_EQ(DisplayWidth("scores"), 6);
  EXPECT_EQ(DisplayWidth("√ᵀ"), 2);
  EXPECT_EQ(DisplayWidth("日本"), 4);
  EXPECT_EQ(DisplayWidth("e\u0301"), 1);
  EXPECT_EQ(TerminalLabel("日本語", 5, true), "日本…");
  EXPECT_EQ(TerminalLabel("日本語", 4, true), "日…");
  EXPECT_EQ(TerminalLabel("abcdef", 4, false), "abc~");
  EXPECT_EQ(PadLeft("日", 4), "  日");
  EXPECT_EQ(PadRight("日", 4), "日  ");
}

TEST(TerminalText, FormulasHaveAnAsciiSpelling) {
  EXPECT_EQ(ToAscii("q · kᵀ / √512, −∞"), "q * k^T / sqrt(512), -inf");
  EXPECT_EQ(ToAscii("√(d + 1) Σ σ² ≤ x₁₂"), "sqrt(d + 1) sum sigma^2 <= x_1_2");
  EXPECT_EQ(ToAscii("1/√D"), "1/sqrt(D)");
  EXPECT_EQ(ToAscii("√Σ x²"), "sqrt sum x^2");
}

TEST(TerminalText, WrapsAtSpaces) {
  EXPECT_EQ(WrapLines("aa bb  cccccc d", 5), (std::vector<std::string>{"aa bb", "cccccc", "d"}));
  EXPECT_TRUE(WrapLines("", 5).empty());
}

}  // namespace
}  // namespace folio
