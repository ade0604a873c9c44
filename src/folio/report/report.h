#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/io/json.h"
#include "folio/term/console.h"
#include "folio/term/terminal_text.h"

namespace folio {

// A Report is what a command has to say: headings, sentences, facts, tables, numbers and figures,
// written down once. The functions at the end of this file make of it text for a terminal, JSON, a
// page and SVG figures.

// A Value is one thing that is said: `text` for people, `json` for programs. The functions say how
// a number is written; one that is no number is "-" for people.
struct Value {
  std::string text = {};
  Json json = {};
  std::vector<Value> list = {};     // texts one after the other, on terminals as many as fit
  std::optional<double> heat = {};  // 0 to 1: how much colour it gets on terminals
  bool warns = false;               // it is written in the colour of warnings

  Value() = default;
  Value(std::string shown, Json data) : text(std::move(shown)), json(std::move(data)) {}
  Value(std::string same) : text(same), json(std::move(same)) {}
  Value(std::string_view same) : Value(std::string(same)) {}
  Value(const char* same) : Value(std::string(same)) {}
  Value(bool yes) : text(yes ? "yes" : "no"), json(yes) {}
  Value(std::integral auto number) : text(std::to_string(number)), json(number) {}
  Value(Json data) : json(std::move(data)) {}  // for programs alone
  Value(double data) : json(data) {}  // for programs alone: a format says how it is written

  static Value Fixed(double number, int digits, double unit = 1);  // "0.1385"; "1.5" of 1500 by 1e3
  static Value Digits(double number, int digits);                  // "0.0003", so many that count
  static Value Short(double number);                   // three that count: "0.123", "12.3", "1e-05"
  static Value Percent(double share, int digits = 0);  // "83%"
  static Value Commas(int64_t number);                 // "124,439,808"
  static Value Count(double number);                   // "124.4M"
  static Value Bytes(double bytes);                    // "1.50 GB"
  static Value Bytes(std::integral auto bytes) {
    return {Bytes(static_cast<double>(bytes)).text, bytes};
  }
  static Value Seconds(double seconds);  // "58m04s"

  Value Heat(double share) && {
    heat = share;
    return std::move(*this);
  }
  Value WarnsIf(bool reason) && {
    warns = reason;
    return std::move(*this);
  }
  // The same with `unit` behind the text: " nats".
  Value In(std::string_view unit) && {
    text += unit;
    return std::move(*this);
  }
};

// "37%", and of less than one "0.4%", "<.1%": at most four characters.
std::string PercentText(double share);

// A Cell is a value by the names that it has: `key` in JSON, `title` for people, where ">" before
// it aligns a column to the right. A value without one of them is not told there.
struct Cell {
  std::string key, title;
  Value value;
};

// Rows of a report, whose cells all have the same titles.
struct ReportTable {
  std::string key = {};  // of the array of its rows in JSON; "" if the report's `data` has them
  std::vector<std::vector<Cell>> rows = {};
  bool turns = false;  // where it is too wide for a terminal it is turned: RenderTableWithin
};

// A Matrix holds numbers with labels, to be shown. One-dimensional ones are one row. NaN is
// "masked", infinities are shown as such.
struct Matrix {
  std::vector<int64_t> shape = {};  // 1 or 2 sizes
  std::vector<double> values = {};
  std::vector<std::string> row_labels = {}, column_labels = {};  // none, or one for each
  std::string row_axis = {}, column_axis = {};                   // "query", "key"
  bool heat = true;                                              // colour says the size
  int digits = 4;                                                // behind the point
  bool scientific = false;  // "2.0611e-09": for numbers that are far apart
  bool masks = true;        // false: NaN is no mask but a result gone wrong, shown as "nan"

  int64_t rows() const { return shape.size() == 2 ? shape[0] : 1; }
  int64_t columns() const { return shape.empty() ? 0 : shape.back(); }
  double At(int64_t row, int64_t column) const {
    return values[static_cast<size_t>(row * columns() + column)];
  }
};

struct MatrixLabels {
  std::vector<std::string> rows = {}, columns = {};  // none, or one for each
  std::string row_axis = {}, column_axis = {};
};

// REQUIRES: as many values as the shape has.
Matrix MakeMatrix(std::vector<int64_t> shape, std::vector<double> values, MatrixLabels labels = {});
// A row of numbers.
Matrix RowValues(std::vector<double> values, MatrixLabels labels = {});
// `rows` stacked, all equally long: the same thing done in several ways.
Matrix StackedValues(const std::vector<std::vector<double>>& rows, MatrixLabels labels = {});
// "0", "1", ...
std::vector<std::string> Numbered(int64_t count, const std::string& prefix = "");

// Returns the values without colours, for numbers that are no sizes, such as ids.
Matrix Plain(Matrix values, int digits = 4);
// Returns the values with exponents, for numbers that are far apart.
Matrix Scientific(Matrix values);
// Makes values that may not be seen NaN. REQUIRES: as many marks as values, 0 for "masked".
void MarkMasked(Matrix& values, std::span<const uint8_t> mask);

// What follows is common to tables in the terminal, on pages and in figures.

bool IsMasked(const Matrix& values, int64_t row, int64_t column);
// A number as it is written in a table: "0.1385", "2.1e-09" where no digit would be left, "-inf".
// "" where masked.
std::string CellText(const Matrix& values, int64_t row, int64_t column);
// "6 × 3", "6 numbers", "1 number"
std::string ShapeText(const Matrix& values);

// 0 to count - 1; where these are more than `most`, with one -1 in the place of those that are left
// out in the middle, and `most` entries in all. REQUIRES: most >= 3.
std::vector<int64_t> CutMiddle(int64_t count, int64_t most);
// "(44 rows in the middle left out)" of `count`, of which CutMiddle gave `shown`; "" if all are.
std::string LeftOutText(const std::vector<int64_t>& shown, int64_t count, const std::string& what);

enum class FigureKind {
  kNone,
  kHeatmap,
  kBars,    // of a single row or a single column; masked ones have none
  kCurves,  // a line for each column over the rows: over the row labels where all are numbers
  kTokens,  // the column labels one after the other, with their numbers
};

// Who gets a part: everybody, those at a terminal, or those with a page.
enum class Medium { kBoth, kTerminal, kPage };

// A ReportPart is shown in the order of its members, as far as it has them. With a name it is one
// step of a computation: what it is called, how it is computed, its numbers, and why it is done.
struct ReportPart {
  std::string heading = {};  // of the section that begins here
  std::string name = {};     // "scores"
  std::string formula = {};  // "scores = x xᵀ", UTF-8
  Matrix values = {};
  std::string text = {};                      // sentences; in a step why it is done
  FigureKind figure = FigureKind::kNone;      // of the values
  std::string drawing_name = {};              // of the file of the drawing, without ".svg"
  std::function<std::string()> drawing = {};  // an SVG document, made if it is asked for
  std::function<std::string(const Terminal&)> terminal = {};  // lines that stand for it
  std::vector<Cell> facts = {};                               // a line for each
  ReportTable table = {};
  Medium medium = Medium::kBoth;  // of headings, sentences and so on; JSON has facts and tables
};

struct Report {
  std::string topic = {};  // of a walk step by step: "attention"
  std::string title = {};  // of a page; in the terminal too if there is an introduction
  std::string intro = {};  // a paragraph
  std::vector<ReportPart> parts = {};
  Json data = Json::object();  // what JSON has beside the facts and tables

  std::string next_section = {};  // heading of the step that is added next

  void Section(std::string heading) { next_section = std::move(heading); }
  void Add(std::string name, std::string formula, Matrix values, std::string why,
           FigureKind figure = FigureKind::kHeatmap) {
    parts.push_back({.heading = std::exchange(next_section, {}),
                     .name = std::move(name),
                     .formula = std::move(formula),
                     .values = std::move(values),
                     .text = std::move(why),
                     .figure = figure});
  }
  // Adds a step of which there is no figure.
  void AddNumbers(std::string name, std::string formula, Matrix values, std::string why) {
    Add(std::move(name), std::move(formula), std::move(values), std::move(why), FigureKind::kNone);
  }
};

// A name as part of a file name, an address or a flag: "masked scores" is "masked-scores".
std::string Slug(std::string_view name);
// The report with only the steps of these slugs, in its own order, without introduction and
// sections; all of it where `slugs` is empty. Throws a kUsage Error that lists all steps for one it
// lacks.
Report SelectSteps(const Report& report, std::span<const std::string> slugs);

// Text for a terminal. Tables of numbers that are wider lose their middle columns, and say so;
// longer ones than `rows` their middle rows.
std::string ReportText(const Report& report, const Terminal& terminal, int rows = 24);

// The columns that the titles of the report's facts take, and facts in lines behind so many; a
// table's titles and texts. Values are as `write` has them.
int64_t FactColumns(const Report& report);
std::string FactLines(std::span<const Cell> facts, int64_t columns,
                      const std::function<std::string(const Value&)>& write);
TextTable AsTextTable(const ReportTable& table,
                      const std::function<std::string(const Value&)>& write);

// {"schema":1, ...} with the data, all facts and all tables by their keys, indented by so many
// spaces if `indent` is not negative. A walk is
// {"schema":1,"topic","title","intro","steps":[{"name",
// "formula","shape","values","why","row_labels","column_labels"},...]}; values are nested as the
// shape says, masked ones null, infinities the strings "inf" and "-inf".
std::string ReportJson(const Report& report, int indent = -1);
// Puts out the report as what the console is for: text, or JSON.
void ShowReport(Console& console, const Report& report, int indent = 2);
// The object of cells, and the array of rows, as it is in there: without rows that have no key.
Json AsJson(std::span<const Cell> cells);
Json AsJson(std::span<const std::vector<Cell>> rows);
// Numbers nested as the shape says, masked ones null.
Json MatrixJson(const Matrix& values);
// A number that may be none: "nan", "inf" or "-inf" then. One that came from float32 has as few
// digits as give that float32 back.
Json NumberJson(double number);

// One self-contained page with all of it.
std::string ReportHtml(const Report& report);

// A figure for each part that has one: file name ("attention-03-weights.svg") and document.
std::vector<std::pair<std::string, std::string>> ReportFigures(const Report& report);

}  // namespace folio
