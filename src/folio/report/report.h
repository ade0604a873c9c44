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

// The results of a command: headings, sentences, facts, tables, numbers and figures, written once.
// The functions at the end of this file render it as text for a terminal, as JSON, as a page and as
// SVG figures.

// One value: `text` for people, `json` for programs. The functions below choose how a number is
// written; NaN is "-" for people.
struct Value {
  std::string text = {};
  Json json = {};
  std::vector<Value> list = {};     // consecutive texts; terminals show as many as fit
  std::optional<double> heat = {};  // 0 to 1: strength of its colour on terminals
  bool warns = false;               // shown in the colour of warnings

  Value() = default;
  Value(std::string shown, Json data) : text(std::move(shown)), json(std::move(data)) {}
  Value(std::string same) : text(same), json(std::move(same)) {}
  Value(std::string_view same) : Value(std::string(same)) {}
  Value(const char* same) : Value(std::string(same)) {}
  Value(bool yes) : text(yes ? "yes" : "no"), json(yes) {}
  Value(std::integral auto number) : text(std::to_string(number)), json(number) {}
  Value(Json data) : json(std::move(data)) {}  // only for programs
  Value(double data) : json(data) {}           // only for programs: the functions below make texts

  // "0.1385"; "1.5" for 1500 with the unit 1e3.
  static Value Fixed(double number, int digits, double unit = 1);
  static Value Short(double number);                   // three digits: "0.123", "12.3", "1e-05"
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

// "37%", below one percent "0.4%", "<.1%": at most four characters.
std::string PercentText(double share);

// A value with its names: `key` in JSON, `title` for people, where a leading ">" aligns a column to
// the right. Without one of them the value is not shown there.
struct Cell {
  std::string key, title;
  Value value;
};

// Rows of a report; all cells have the same titles.
struct ReportTable {
  std::string key = {};  // of the array of rows in JSON; "" if `data` has them
  std::vector<std::vector<Cell>> rows = {};
  bool turns = false;  // transposed if it is too wide for a terminal: RenderTableWithin
};

// Numbers with labels to be shown. A one-dimensional matrix is one row. NaN means "masked",
// infinities are shown.
struct Matrix {
  std::vector<int64_t> shape = {};  // 1 or 2 sizes
  std::vector<double> values = {};
  std::vector<std::string> row_labels = {}, column_labels = {};  // empty, or one for each
  std::string row_axis = {}, column_axis = {};                   // "query", "key"
  bool heat = true;                                              // colour shows the magnitude
  int digits = 4;                                                // digits after the point
  bool scientific = false;  // "2.0611e-09": for numbers of very different magnitudes
  bool masks = true;        // false: NaN is a wrong result instead of a mask, shown as "nan"

  int64_t rows() const { return shape.size() == 2 ? shape[0] : 1; }
  int64_t columns() const { return shape.empty() ? 0 : shape.back(); }
  double At(int64_t row, int64_t column) const {
    return values[static_cast<size_t>(row * columns() + column)];
  }
};

struct MatrixLabels {
  std::vector<std::string> rows = {}, columns = {};  // empty, or one for each
  std::string row_axis = {}, column_axis = {};
};

// REQUIRES: as many values as the shape has.
Matrix MakeMatrix(std::vector<int64_t> shape, std::vector<double> values, MatrixLabels labels = {});
// A row of numbers.
Matrix RowValues(std::vector<double> values, MatrixLabels labels = {});
// `rows` stacked, all of one length: variants of the same computation.
Matrix StackedValues(const std::vector<std::vector<double>>& rows, MatrixLabels labels = {});
// "0", "1", ...
std::vector<std::string> Numbered(int64_t count, const std::string& prefix = "");

// Returns the values without colours, for numbers that are no magnitudes, such as ids.
Matrix Plain(Matrix values, int digits = 4);
// Returns the values with exponents, for numbers of very different magnitudes.
Matrix Scientific(Matrix values);
// Sets masked values to NaN. REQUIRES: as many marks as values, 0 for "masked".
void MarkMasked(Matrix& values, std::span<const uint8_t> mask);

// The following functions are common to tables in the terminal, on pages and in figures.

bool IsMasked(const Matrix& values, int64_t row, int64_t column);
// A number's text in a table: "0.1385", "2.1e-09" if no digit would be left, "-inf", "" if masked.
std::string CellText(const Matrix& values, int64_t row, int64_t column);
// "6 × 3", "6 numbers", "1 number"
std::string ShapeText(const Matrix& values);

// 0 to count - 1; if these are more than `most`, with -1 in place of the omitted ones in the
// middle, and `most` entries in all. REQUIRES: most >= 3.
std::vector<int64_t> CutMiddle(int64_t count, int64_t most);
// "(44 rows in the middle left out)" for `count` rows, `shown` being the result of CutMiddle; "" if
// none is left out.
std::string LeftOutText(const std::vector<int64_t>& shown, int64_t count, const std::string& what);

enum class FigureKind {
  kNone,
  kHeatmap,
  kBars,    // for a single row or a single column; masked values have none
  kCurves,  // a line for each column over the rows: over the row labels if all are numbers
  kTokens,  // the column labels in a row, with their numbers
};

// Where a part is shown: everywhere, only on terminals, or only on pages.
enum class Medium { kBoth, kTerminal, kPage };

// The members of a part are shown in this order, if set. A part with a name is one step of a
// computation: its name, formula, numbers, and reason.
struct ReportPart {
  std::string heading = {};  // heading of the section that begins here
  std::string name = {};     // "scores"
  std::string formula = {};  // "scores = x xᵀ", UTF-8
  Matrix values = {};
  std::string text = {};                      // sentences; for a step its reason
  FigureKind figure = FigureKind::kNone;      // kind of figure for `values`
  std::string drawing_name = {};              // file name of the drawing, without ".svg"
  std::function<std::string()> drawing = {};  // makes an SVG document on demand
  std::function<std::string(const Terminal&)> terminal = {};  // lines that replace it on terminals
  std::vector<Cell> facts = {};                               // one line each
  ReportTable table = {};
  Medium medium = Medium::kBoth;  // for texts; JSON has all facts and tables
};

struct Report {
  std::string topic = {};  // topic of a step-by-step walk: "attention"
  std::string title = {};  // title of a page; in the terminal only if there is an introduction
  std::string intro = {};  // one paragraph
  std::vector<ReportPart> parts = {};
  Json data = Json::object();  // further members of the JSON

  std::string next_section = {};  // heading of the next step that is added

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
  // Adds a step without a figure.
  void AddNumbers(std::string name, std::string formula, Matrix values, std::string why) {
    Add(std::move(name), std::move(formula), std::move(values), std::move(why), FigureKind::kNone);
  }
};

// A name for file names, addresses or flags: "masked scores" is "masked-scores".
std::string Slug(std::string_view name);
// The report with only the steps of these slugs, in the report's order, without introduction and
// sections; the whole report if `slugs` is empty. Throws a kUsage Error that lists all steps for an
// unknown one.
Report SelectSteps(const Report& report, std::span<const std::string> slugs);

// Text for a terminal. Wider tables of numbers omit their middle columns, with a note; tables
// longer than `rows` their middle rows.
std::string ReportText(const Report& report, const Terminal& terminal, int rows = 24);

// FactColumns is the width of the titles of the report's facts; the others give facts as lines of
// at least that width, and a table's titles and texts. `write` makes the text of a value.
int64_t FactColumns(const Report& report);
std::string FactLines(std::span<const Cell> facts, int64_t columns,
                      const std::function<std::string(const Value&)>& write);
TextTable AsTextTable(const ReportTable& table,
                      const std::function<std::string(const Value&)>& write);

// {"schema":1, ...} with the data, all facts and all tables by their keys, indented by `indent`
// spaces if it is not negative. A walk is {"schema":1,"topic","title","intro","steps":[{"name",
// "formula","shape","values","why","row_labels","column_labels"},...]}; values are nested by shape,
// masked ones null, infinities the strings "inf" and "-inf".
std::string ReportJson(const Report& report, int indent = -1);
// Prints the report in the console's format: text, or JSON.
void ShowReport(Console& console, const Report& report, int indent = 2);
// The object of cells, and the array of rows, as in ReportJson: without rows that have no key.
Json AsJson(std::span<const Cell> cells);
Json AsJson(std::span<const std::vector<Cell>> rows);
// Numbers nested by shape, masked ones null.
Json MatrixJson(const Matrix& values);
// A number, or "nan", "inf" or "-inf". One from float32 has the fewest digits that give it back.
Json NumberJson(double number);

// The whole report as one self-contained page.
std::string ReportHtml(const Report& report);

// For each part with a figure: file name ("attention-03-weights.svg") and document.
std::vector<std::pair<std::string, std::string>> ReportFigures(const Report& report);

}  // namespace folio
