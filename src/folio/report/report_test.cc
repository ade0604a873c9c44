// The renderers on walks made for these tests: output for people, programs and browsers.
#include "folio/report/report.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/term/terminal_text.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

const Terminal kWide{.utf8 = true, .width = 100};
const Terminal kColour{.color = true, .utf8 = true, .width = 100};
const Terminal kAsciiTerminal{.is_terminal = true, .width = 100};

Report OneStep(Matrix values, FigureKind figure = FigureKind::kHeatmap) {
  return {.topic = "test",
          .title = "A walk",
          .intro = "What it is about.",
          .parts = {{.name = "scores & more",
                     .formula = "scores = x xᵀ / √512",
                     .values = std::move(values),
                     .text = "Because √d is <so>.",
                     .figure = figure}}};
}

Matrix SmallValues() {
  return {.shape = {2, 3},
          .values = {0.25, -10, NAN, INFINITY, -INFINITY, 0.1F},
          .row_labels = {"a", "long row"},
          .column_labels = {"x", "column", "·the"},
          .row_axis = "query",
          .column_axis = "key"};
}

Matrix Large(int64_t rows, int64_t columns) {
  Matrix values{.shape = {rows, columns}};
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

TEST(ReportText, ColumnsAreAlignedAndMaskedCellsAreDots) {
  EXPECT_EQ(ReportText(OneStep(SmallValues()), kWide),
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

TEST(ReportText, AsciiTerminalsGetNothingElse) {
  Report walk = OneStep(SmallValues());
  walk.parts[0].heading = "Ü";
  const std::string text = ReportText(walk, kAsciiTerminal);
  EXPECT_TRUE(Contains(text, "scores = x x^T / sqrt(512)\n")) << text;
  EXPECT_TRUE(Contains(text, "Because sqrt(d) is <so>.\n")) << text;
  EXPECT_TRUE(LineWith(text, "-10.0000").ends_with("         .")) << text;
  EXPECT_TRUE(LineWith(text, "query").ends_with("_the")) << text;
  for (const char c : text) EXPECT_LT(static_cast<unsigned char>(c), 0x80);
}

TEST(ReportText, ColourOnlyWhereAskedAndHeatOnlyWhereWanted) {
  EXPECT_FALSE(Contains(ReportText(OneStep(SmallValues()), kWide), "\x1b"));
  const std::string coloured = ReportText(OneStep(SmallValues()), kColour);
  EXPECT_TRUE(Contains(coloured, "\x1b[48;5;202;38;5;16m -10.0000 \x1b[0m")) << coloured;
  std::string plain = std::regex_replace(coloured, std::regex("\x1b\\[[0-9;]*m"), "");
  plain = std::regex_replace(plain, std::regex(" +\n"), "\n");
  EXPECT_EQ(plain, ReportText(OneStep(SmallValues()), kWide));
  Matrix cool = SmallValues();
  cool.heat = false;
  EXPECT_FALSE(Contains(ReportText(OneStep(cool), kColour), "\x1b[48;5"));
}

TEST(ReportText, ZeroHasNoColourAndSignsDiffer) {
  Matrix row{.shape = {4}, .values = {0, 4, -4, 0.3}};
  const std::string text = ReportText(OneStep(row), kColour);
  EXPECT_TRUE(Contains(text, "  0.0000 \x1b[48;5;33;38;5;16m  4.0000 ")) << text;
  EXPECT_TRUE(Contains(text, "\x1b[48;5;202;38;5;16m -4.0000 ")) << text;
  EXPECT_TRUE(Contains(text, "\x1b[38;5;33m  0.3000")) << text;  // letters only
}

TEST(ReportText, WideTablesLoseTheirMiddleAndSayHowMuch) {
  for (const int width : {40, 61, 80, 120}) {
    const std::string text = ReportText(OneStep(Large(3, 101)), {.utf8 = true, .width = width});
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
    EXPECT_TRUE(
        Contains(text, "(" + std::to_string(101 - shown) + " columns in the middle omitted)"))
        << text;
  }
}

TEST(ReportText, LongTablesLoseTheirMiddleRows) {
  const std::string text = ReportText(OneStep(Large(50, 2)), kWide, 7);
  EXPECT_TRUE(Contains(text, "   r2 "));
  EXPECT_FALSE(Contains(text, "   r3 "));
  EXPECT_TRUE(Contains(text, "   r47"));
  EXPECT_FALSE(Contains(text, "   r46"));
  EXPECT_TRUE(Contains(text, "(44 rows in the middle omitted)")) << text;
  EXPECT_FALSE(Contains(ReportText(OneStep(Large(7, 2)), kWide, 7), "left out"));
}

TEST(ReportText, BarsAreAsLongAsTheirNumbers) {
  Matrix row{.shape = {3}, .values = {0.5, 1, NAN}, .column_labels = {"half", "一", "no"}};
  const std::string text = ReportText(OneStep(row, FigureKind::kBars), kWide);
  std::string full;
  for (int i = 0; i < 20; ++i) full += "█";
  EXPECT_TRUE(Contains(text, "   half  0.5000  " + full + "\n")) << text;
  EXPECT_TRUE(Contains(text, "   一    1.0000  " + full + full + "\n")) << text;
  EXPECT_TRUE(Contains(text, "   no         ·\n")) << text;
  row.values[0] = -1;
  EXPECT_FALSE(Contains(ReportText(OneStep(row, FigureKind::kBars), kWide), "█"));
}

TEST(ReportText, LabelsFromAnywhereCannotHarmTheTerminal) {
  Matrix values{.shape = {1, 2},
                .values = {1, 2},
                .row_labels = {"\x1b[31m\x07"},
                .column_labels = {"\xFF", "a very very long label\n"}};
  for (const bool utf8 : {true, false}) {
    const std::string text = ReportText(OneStep(values), utf8 ? kWide : kAsciiTerminal);
    EXPECT_FALSE(Contains(text, "\x1b"));
    EXPECT_FALSE(Contains(text, "\x07"));
    EXPECT_FALSE(Contains(text, "\xFF"));
    EXPECT_FALSE(Contains(text, "long label"));
  }
}

TEST(CellText, SmallAndLargeNumbersKeepTheirDigits) {
  Matrix values{.shape = {6}, .values = {2.0611e-9, 0.00006, -3e7, 0, NAN, -0.0}};
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
  EXPECT_EQ(LeftOutText(CutMiddle(10, 6), 10, "rows"), "(5 rows in the middle omitted)");
  EXPECT_EQ(LeftOutText(CutMiddle(6, 6), 6, "rows"), "");
}

TEST(ReportJson, HasTheSchemaAndNestsByShape) {
  const nlohmann::json json = nlohmann::json::parse(ReportJson(OneStep(SmallValues())));
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

TEST(ReportJson, FloatsComeBackAndMasksAreNoNan) {
  Matrix values{.shape = {4}, .values = {0.13854758F, 1.0 / 3, NAN, 1e-45F}};
  values.masks = false;
  const std::string text = ReportJson(OneStep(values));
  const nlohmann::json row = nlohmann::json::parse(text).at("steps").at(0).at("values");
  EXPECT_EQ(row.at(0).get<float>(), 0.13854758F);
  EXPECT_EQ(row.at(1).get<double>(), 1.0 / 3);
  EXPECT_EQ(row.at(2), "nan");
  EXPECT_EQ(row.at(3).get<float>(), 1e-45F);
  EXPECT_TRUE(Contains(text, "0.13854758,")) << text;
}

TEST(ReportFigures, AreNamedForTheirSteps) {
  Report walk = OneStep(SmallValues());
  walk.parts.push_back({.name = "no figure", .values = SmallValues(), .figure = FigureKind::kNone});
  walk.parts.push_back({.name = "Σ of “all”",
                        .values = {.shape = {2}, .values = {1, 2}, .column_labels = {"a", "b"}},
                        .figure = FigureKind::kBars});
  walk.parts.push_back({.name = "curve",
                        .values = {.shape = {3, 1}, .values = {1, 4, 9}},
                        .figure = FigureKind::kCurves});
  const auto figures = ReportFigures(walk);
  ASSERT_EQ(figures.size(), 3);
  EXPECT_EQ(figures[0].first, "test-01-scores-more.svg");
  EXPECT_EQ(figures[1].first, "test-03-of-all.svg");
  EXPECT_EQ(figures[2].first, "test-04-curve.svg");
  for (const auto& [name, svg] : figures) EXPECT_TRUE(Contains(svg, "<svg")) << name;
  EXPECT_TRUE(Contains(figures[0].second, "long row"));
  EXPECT_TRUE(Contains(figures[1].second, "2.0000"));
}

TEST(ReportHtml, IsOnePageWithoutScriptsOrLinks) {
  const std::string html = ReportHtml(OneStep(SmallValues()));
  EXPECT_TRUE(Contains(html, "scores &amp; more"));
  EXPECT_TRUE(Contains(html, "Because √d is &lt;so&gt;."));
  EXPECT_TRUE(Contains(html, ">-10.0000</td><td class=\"number\">·</td>")) << html;
  EXPECT_TRUE(html.starts_with("<!DOCTYPE html>\n<html lang=\"en\">"));
  EXPECT_TRUE(Contains(html, "<svg"));
  for (const char* outside : {"<script", "<link", "@import", "src=", "url(http", "url(//"}) {
    EXPECT_FALSE(Contains(html, outside)) << outside;
  }
  EXPECT_EQ(Count(html, "http"), Count(html, "http://www.w3.org/2000/svg"));
}

TEST(ReportHtml, ListsItsSectionsBeforeTheFirst) {
  Report report{.title = "Title", .intro = "what it is"};
  for (const char* heading : {"A & B", "A & B"}) {
    report.parts.push_back({.heading = heading, .text = "text"});
  }
  EXPECT_EQ(Count(ReportHtml(report), "<nav"), 0U);
  report.parts.push_back({.name = "C", .text = "why"});
  EXPECT_EQ(Count(ReportHtml(report),
                  "<p>what it is</p>\n<nav aria-label=\"contents\"><ul>\n"
                  "<li class=\"l2\"><a href=\"#a-b\">A &amp; B</a></li>\n"
                  "<li class=\"l2\"><a href=\"#a-b-2\">A &amp; B</a></li>\n"
                  "<li class=\"l3\"><a href=\"#1-c\">1. C</a></li>\n</ul></nav>\n<h2"),
            1U);
}

TEST(ReportHtml, AnchorsAreUnique) {
  Report report{.title = "t"};
  for (const char* heading : {"The step", "The step!", "the-step 2", "\xE4\xBD\xA0", "?"}) {
    report.parts.push_back({.heading = heading, .text = "text"});
  }
  const std::string html = ReportHtml(report);
  for (const char* id : {"the-step", "the-step-2", "the-step-2-2", "section", "section-2"}) {
    EXPECT_EQ(Count(html, "<h2 id=\"" + std::string(id) + "\">"), 1U) << id;
  }
}

TEST(ReportHtml, FiguresKeepTheirIdsApart) {
  const std::string svg =
      "<?xml version=\"1.0\"?>\n<svg><mask id=\"m\"/><rect mask=\"url(#m)\"/><use href=\"#m\"/>"
      "<text id=\"t\">see url(#m) and id=&quot;m&quot;</text></svg>\n";
  const std::string html =
      ReportHtml({.parts = {{.drawing = [&] { return svg; }}, {.drawing = [&] { return svg; }}}});
  EXPECT_EQ(Count(html, "<?xml"), 0U);
  for (const char* figure : {"figure1.", "figure2."}) {
    EXPECT_EQ(Count(html, "<svg><mask id=\"" + std::string(figure) + "m\"/><rect mask=\"url(#" +
                              figure + "m)\"/><use href=\"#" + figure + "m\"/><text id=\"" +
                              figure + "t\">see url(#m) and id=&quot;m&quot;</text></svg>"),
              1U);
  }
}

TEST(ReportHtmlDeathTest, RowsHaveACellForEachColumn) {
  const Report report{
      .parts = {{.table = {.rows = {{{"", "a", 1}, {"", "b", 2}}, {{"", "a", 3}}}}}}};
  EXPECT_DEATH(ReportHtml(report), "a cell for each column");
}

TEST(ReportHtml, NamesAndFormulasStandOnce) {
  for (const FigureKind figure : {FigureKind::kHeatmap, FigureKind::kNone}) {
    const std::string html = ReportHtml(OneStep(SmallValues(), figure));
    EXPECT_EQ(Count(html, "scores &amp; more"), 1U) << "the heading";
    EXPECT_EQ(Count(html, "scores = x xᵀ"), 1U);
  }
}

TEST(ReportHtml, LabelsAreNoMarkup) {
  Matrix values = SmallValues();
  values.row_labels[0] = "<script>";
  values.column_labels[0] = "</table>";
  const std::string html = ReportHtml(OneStep(values));
  EXPECT_FALSE(Contains(html, "<script>"));
  EXPECT_TRUE(Contains(html, ">&lt;script&gt;</th>"));
  EXPECT_TRUE(Contains(html, ">&lt;/table&gt;</th>"));
}

TEST(ReportHtml, LargeTablesAreCutToo) {
  const std::string html = ReportHtml(OneStep(Large(100, 40), FigureKind::kNone));
  EXPECT_TRUE(Contains(html, "(37 rows in the middle omitted)"));
  EXPECT_TRUE(Contains(html, "(9 columns in the middle omitted)"));
  EXPECT_TRUE(Contains(html, "<details open>"));
}

Report FactsAndRows() {
  Report report{.title = "Runs & more"};
  report.parts.push_back({.text = "For pages.", .medium = Medium::kPage});
  report.parts.push_back({.facts = {{"path", "path", "a/·b"},
                                    {"loss", "mean loss", Value::Fixed(1.23456, 2).In(" nats")},
                                    {"tokens", "", 5}}});
  report.parts.push_back(
      {.heading = "a heading",
       .drawing_name = "figure",
       .drawing = [] { return std::string("<svg></svg>"); },
       .terminal = [](const Terminal& at) { return fmt::format("{} columns\n", at.width); }});
  report.parts.push_back({.heading = "drawn on pages alone",
                          .drawing_name = "second",
                          .drawing = [] { return std::string("<svg></svg>"); }});
  Value list;
  list.list = {"first", "·second", "third"};
  ReportPart table{.heading = "rows", .table = {.key = "rows"}};
  for (const int64_t n : {1, 20000}) {
    table.table.rows.push_back({{"n", ">n", Value::Commas(n)},
                                {"name", "", "json alone"},
                                {"share", ">share", Value::Percent(0.5).Heat(0.5)},
                                {"bad", ">bad", Value(n).WarnsIf(n > 1)},
                                {"", "list", list}});
  }
  report.parts.push_back(std::move(table));
  return report;
}

TEST(ReportText, FactsTablesAndDrawingsAreAligned) {
  EXPECT_EQ(ReportText(FactsAndRows(), kWide),
            "path       a/·b\n"
            "mean loss  1.23 nats\n"
            "\n"
            "a heading\n"
            "100 columns\n"
            "\n"
            "rows\n"
            "     n  share    bad  list\n"
            "     1    50%      1  first  ·second  third\n"
            "20,000    50%  20000  first  ·second  third\n");
}

TEST(ReportText, ListsTakeWhatRoomATerminalHas) {
  const Terminal narrow{.is_terminal = true, .color = true, .width = 40};
  const std::string text = ReportText(FactsAndRows(), narrow);
  EXPECT_TRUE(Contains(text, "first  _second\n")) << text;
  EXPECT_TRUE(Contains(text, "\x1b[1;33m20000\x1b[0m")) << text;
  EXPECT_TRUE(Contains(text, "\x1b[38;5;16m50%\x1b[0m") || Contains(text, "m50%\x1b[0m")) << text;
}

TEST(ReportJson, HasFactsAndRowsByTheirKeys) {
  Report report = FactsAndRows();
  report.data = {{"first", true}};
  EXPECT_EQ(
      ReportJson(report),
      "{\"schema\":1,\"first\":true,\"path\":\"a/·b\",\"loss\":1.23456,\"tokens\":5,\"rows\":["
      "{\"n\":1,\"name\":\"json alone\",\"share\":0.5,\"bad\":1},"
      "{\"n\":20000,\"name\":\"json alone\",\"share\":0.5,\"bad\":20000}]}\n");
}

TEST(ReportHtml, HasEveryPartOfAReport) {
  const std::string html = ReportHtml(FactsAndRows());
  for (const char* part :
       {"<title>Runs &amp; more</title>", "<h1 id=\"runs-more\">Runs &amp; more</h1>",
        "<p>For pages.</p>", "<pre>\npath       a/·b\nmean loss  1.23 nats\n</pre>",
        "drawn on pages alone</h2>",
        "<div class=\"table\"><table><thead><tr><th scope=\"col\" class=\"number\">n</th>"
        "<th scope=\"col\" class=\"number\">share</th><th scope=\"col\" class=\"number\">bad</th>"
        "<th scope=\"col\">list</th></tr></thead>\n<tbody>\n"
        "<tr><th scope=\"row\" class=\"number\">1</th>",
        "<td>first  ·second  third</td>", "<th scope=\"row\" class=\"number\">20,000</th>"}) {
    EXPECT_TRUE(Contains(html, part)) << part << html;
  }
  EXPECT_EQ(Count(html, "prefers-color-scheme:dark"), 1U);
  EXPECT_EQ(Count(html, "<figure>"), 2U);
  EXPECT_FALSE(Contains(html, "100 columns"));
}

TEST(ReportFigures, AreNamedByTheirDrawings) {
  const auto figures = ReportFigures(FactsAndRows());
  ASSERT_EQ(figures.size(), 2U);
  EXPECT_EQ(figures[0].first, "figure.svg");
  EXPECT_EQ(figures[1].first, "second.svg");
}

TEST(Value, NumbersAreWrittenInOneWay) {
  const double nan = std::nan("");
  for (const auto& [value, text] : {std::pair(Value::Fixed(0.13854, 3), "0.139"),
                                    {Value::Fixed(1500, 1, 1e3), "1.5"},
                                    {Value::Fixed(nan, 2), "-"},
                                    {Value::Short(123.4), "123"},
                                    {Value::Short(12.34), "12.3"},
                                    {Value::Short(1.234), "1.23"},
                                    {Value::Short(0.1234), "0.123"},
                                    {Value::Short(0), "0.000"},
                                    {Value::Short(1.2e-5), "1e-05"},
                                    {Value::Short(-3e6), "-3e+06"},
                                    {Value::Percent(0.4567), "46%"},
                                    {Value::Percent(0.4567, 1), "45.7%"},
                                    {Value::Percent(nan), "-"},
                                    {Value::Commas(1234567), "1,234,567"},
                                    {Value::Count(1.2e6), "1.2M"},
                                    {Value::Bytes(uint64_t{1500}), "1.50 KB"},
                                    {Value::Seconds(90), "1m30s"},
                                    {Value(true), "yes"},
                                    {Value(-3), "-3"}}) {
    EXPECT_EQ(value.text, text);
  }
  EXPECT_EQ(Value::Fixed(1500, 1, 1e3).json, Json(1500.0));
}

TEST(PercentText, SmallSharesAreNotNothing) {
  EXPECT_EQ(PercentText(1), "100%");
  EXPECT_EQ(PercentText(0.374), "37%");
  EXPECT_EQ(PercentText(0.0096), "1%");
  EXPECT_EQ(PercentText(0.003), "0.3%");
  EXPECT_EQ(PercentText(1e-9), "<.1%");
  EXPECT_EQ(PercentText(0), "0%");
}

Report ThreeSteps() {
  return {
      .topic = "t",
      .title = "title",
      .intro = "intro",
      .parts = {
          {.heading = "part", .name = "inputs"}, {.name = "scores of “one”"}, {.name = "inputs"}}};
}

TEST(Slug, KeepsLettersAndDigits) {
  EXPECT_EQ(Slug("the query (1, 0) meets a database"), "the-query-1-0-meets-a-database");
  EXPECT_EQ(Slug("weights of “journey”"), "weights-of-journey");
  EXPECT_EQ(Slug("“”"), "");
}

TEST(SelectSteps, KeepsTheWalksOrderAndAllOfAName) {
  const std::vector<std::string> slugs = {"scores-of-one", "inputs"};
  const Report walk = SelectSteps(ThreeSteps(), slugs);
  ASSERT_EQ(walk.parts.size(), 3u);
  EXPECT_EQ(walk.parts[0].name, "inputs");
  EXPECT_EQ(walk.parts[0].heading, "");
  EXPECT_EQ(walk.parts[1].name, "scores of “one”");
  EXPECT_EQ(walk.intro, "");
  EXPECT_EQ(walk.topic, "t");
}

TEST(SelectSteps, LeavesTheWalkWholeWithoutNames) {
  const Report walk = SelectSteps(ThreeSteps(), {});
  EXPECT_EQ(walk.parts.size(), 3u);
  EXPECT_EQ(walk.intro, "intro");
  EXPECT_EQ(walk.parts[0].heading, "part");
}

TEST(SelectSteps, NamesTheStepsForOneThatIsNotThere) {
  const std::vector<std::string> slugs = {"outputs"};
  EXPECT_EQ(Refused([&] { SelectSteps(ThreeSteps(), slugs); }, ErrorKind::kUsage).cause(),
            "the steps are inputs, scores-of-one");
}

}  // namespace
}  // namespace folio
