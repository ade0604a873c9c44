#include "folio/report/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/strings.h"

namespace folio {
namespace {

Value Written(double number, std::string text) {
  return {std::isnan(number) ? "-" : std::move(text), number};
}

Json StepJson(const ReportPart& step) {
  Json json = {{"name", step.name},
               {"formula", step.formula},
               {"shape", step.values.shape},
               {"values", MatrixJson(step.values)},
               {"why", step.text},
               {"row_labels", step.values.row_labels},
               {"column_labels", step.values.column_labels}};
  if (!step.heading.empty()) json["section"] = step.heading;
  return json;
}

}  // namespace

Value Value::Fixed(double number, int digits, double unit) {
  return Written(number, fmt::format("{:.{}f}", number / unit, digits));
}

Value Value::Short(double number) {
  const double size = std::abs(number);
  if (size >= 1e5 || (size > 0 && size < 5e-4)) return {fmt::format("{:.0e}", number), number};
  return Fixed(number, size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

Value Value::Percent(double share, int digits) {
  return Written(share, fmt::format("{:.{}f}%", 100 * share, digits));
}

Value Value::Commas(int64_t number) {
  return {WithCommas(number), number};
}

Value Value::Count(double number) {
  return Written(number, HumanCount(number));
}

Value Value::Bytes(double bytes) {
  return Written(bytes, HumanBytes(bytes));
}

Value Value::Seconds(double seconds) {
  return Written(seconds, HumanSeconds(seconds));
}

Matrix MakeMatrix(std::vector<int64_t> shape, std::vector<double> values, MatrixLabels labels) {
  Matrix matrix{.shape = std::move(shape),
                .values = std::move(values),
                .row_labels = std::move(labels.rows),
                .column_labels = std::move(labels.columns),
                .row_axis = std::move(labels.row_axis),
                .column_axis = std::move(labels.column_axis)};
  FOLIO_CHECK(std::ssize(matrix.values) == matrix.rows() * matrix.columns(), "numbers of a shape");
  FOLIO_CHECK(matrix.row_labels.empty() || std::ssize(matrix.row_labels) == matrix.rows(),
              "a label for each row");
  FOLIO_CHECK(matrix.column_labels.empty() || std::ssize(matrix.column_labels) == matrix.columns(),
              "a label for each column");
  return matrix;
}

Matrix RowValues(std::vector<double> values, MatrixLabels labels) {
  const int64_t columns = std::ssize(values);
  return MakeMatrix({columns}, std::move(values), std::move(labels));
}

Matrix StackedValues(const std::vector<std::vector<double>>& rows, MatrixLabels labels) {
  std::vector<double> all;
  for (const std::vector<double>& row : rows) {
    FOLIO_CHECK(row.size() == rows.front().size(), "rows of equal length");
    all.insert(all.end(), row.begin(), row.end());
  }
  const int64_t columns = rows.empty() ? 0 : std::ssize(rows.front());
  return MakeMatrix({std::ssize(rows), columns}, std::move(all), std::move(labels));
}

std::vector<std::string> Numbered(int64_t count, const std::string& prefix) {
  std::vector<std::string> labels;
  for (int64_t i = 0; i < count; ++i) labels.push_back(prefix + std::to_string(i));
  return labels;
}

Matrix Plain(Matrix values, int digits) {
  values.heat = false;
  values.digits = digits;
  return values;
}

Matrix Scientific(Matrix values) {
  values.scientific = true;
  return values;
}

void MarkMasked(Matrix& values, std::span<const uint8_t> mask) {
  FOLIO_CHECK(mask.size() == values.values.size(), "a mark for each value");
  for (size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] == 0) values.values[i] = std::numeric_limits<double>::quiet_NaN();
  }
}

bool IsMasked(const Matrix& values, int64_t row, int64_t column) {
  return values.masks && std::isnan(values.At(row, column));
}

std::string CellText(const Matrix& values, int64_t row, int64_t column) {
  const double value = values.At(row, column);
  if (std::isnan(value)) return values.masks ? "" : "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  if (values.scientific) return fmt::format("{:.{}e}", value, values.digits);
  constexpr double kLongNumber = 1e7;  // larger ones are written with an exponent
  const double size = std::abs(value);
  if (size >= kLongNumber) return fmt::format("{:.{}e}", value, std::min(values.digits, 4));
  if (size != 0 && size < 0.5 * std::pow(10.0, -values.digits)) return fmt::format("{:.0e}", value);
  return fmt::format("{:.{}f}", value == 0 ? 0.0 : value, values.digits);
}

std::string ShapeText(const Matrix& values) {
  if (values.shape.size() == 2) return fmt::format("{} × {}", values.rows(), values.columns());
  return values.columns() == 1 ? "1 number" : fmt::format("{} numbers", values.columns());
}

std::vector<int64_t> CutMiddle(int64_t count, int64_t most) {
  FOLIO_CHECK(most >= 3, "a cut table has a beginning, a gap and an end");
  std::vector<int64_t> shown;
  const int64_t first = count <= most ? count : most / 2;
  for (int64_t i = 0; i < first; ++i) shown.push_back(i);
  if (count > most) {
    shown.push_back(-1);
    for (int64_t i = count - (most - 1 - first); i < count; ++i) shown.push_back(i);
  }
  return shown;
}

std::string LeftOutText(const std::vector<int64_t>& shown, int64_t count, const std::string& what) {
  if (std::ranges::count(shown, -1) == 0) return "";
  return fmt::format("({} {} in the middle omitted)", count - std::ssize(shown) + 1, what);
}

std::string PercentText(double share) {
  const double percent = 100 * share;
  if (percent >= 0.95 || percent == 0) return fmt::format("{:.0f}%", percent);
  return percent >= 0.05 ? fmt::format("{:.1f}%", percent) : "<.1%";
}

std::string Slug(std::string_view name) {
  std::string slug;
  for (const char c : LowerAscii(name)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && std::isalnum(byte) != 0) {
      slug += c;
    } else if (!slug.empty() && slug.back() != '-') {
      slug += '-';
    }
  }
  while (slug.ends_with('-')) slug.pop_back();
  return slug;
}

Report SelectSteps(const Report& report, std::span<const std::string> slugs) {
  if (slugs.empty()) return report;
  std::set<std::string> known;
  for (const ReportPart& step : report.parts) known.insert(Slug(step.name));
  for (const std::string& slug : slugs) {
    if (known.contains(slug)) continue;
    throw UsageError("there is no step '" + slug + "'",
                     fmt::format("the steps are {}", fmt::join(known, ", ")));
  }
  Report selected{.topic = report.topic, .title = report.title};
  for (const ReportPart& step : report.parts) {
    if (std::ranges::find(slugs, Slug(step.name)) == slugs.end()) continue;
    selected.parts.push_back(step);
    selected.parts.back().heading.clear();
  }
  return selected;
}

int64_t FactColumns(const Report& report) {
  int64_t widest = 0;
  for (const ReportPart& part : report.parts) {
    for (const Cell& fact : part.facts) widest = std::max(widest, DisplayWidth(fact.title));
  }
  return widest + 2;
}

std::string FactLines(std::span<const Cell> facts, int64_t columns,
                      const std::function<std::string(const Value&)>& write) {
  std::string lines;
  for (const Cell& fact : facts) {
    if (!fact.title.empty()) lines += PadRight(fact.title, columns) + write(fact.value) + "\n";
  }
  return lines;
}

TextTable AsTextTable(const ReportTable& table,
                      const std::function<std::string(const Value&)>& write) {
  TextTable text;
  if (table.rows.empty()) return text;
  for (const Cell& cell : table.rows.front()) {
    if (!cell.title.empty()) text.columns.push_back(cell.title);
  }
  for (const std::vector<Cell>& row : table.rows) {
    std::vector<std::string>& cells = text.rows.emplace_back();
    for (const Cell& cell : row) {
      if (!cell.title.empty()) cells.push_back(write(cell.value));
    }
  }
  return text;
}

Json NumberJson(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  const auto single = static_cast<float>(number);
  if (static_cast<double>(single) != number) return number;
  return std::strtod(fmt::format("{}", single).c_str(), nullptr);
}

Json MatrixJson(const Matrix& values) {
  Json rows = Json::array();
  for (int64_t r = 0; r < values.rows(); ++r) {
    Json row = Json::array();
    for (int64_t c = 0; c < values.columns(); ++c) {
      row.push_back(IsMasked(values, r, c) ? Json() : NumberJson(values.At(r, c)));
    }
    rows.push_back(std::move(row));
  }
  return values.shape.size() == 2 ? rows : rows.at(0);
}

Json AsJson(std::span<const Cell> cells) {
  Json json = Json::object();
  for (const Cell& cell : cells) {
    if (!cell.key.empty()) json.Add(cell.key, cell.value.json);
  }
  return json;
}

Json AsJson(std::span<const std::vector<Cell>> rows) {
  Json json = Json::array();
  for (const std::vector<Cell>& row : rows) {
    Json object = AsJson(row);
    if (!object.empty()) json.push_back(std::move(object));
  }
  return json;
}

std::string ReportJson(const Report& report, int indent) {
  Json json = {{"schema", 1}};
  json.update(report.data);
  if (!report.topic.empty()) {
    json.update({{"topic", report.topic}, {"title", report.title}, {"intro", report.intro}});
    json["steps"] = Json::array();
  }
  for (const ReportPart& part : report.parts) {
    if (!part.name.empty()) json["steps"].push_back(StepJson(part));
    json.update(AsJson(part.facts));
    if (!part.table.key.empty()) json[part.table.key] = AsJson(part.table.rows);
  }
  return json.dump(indent) + "\n";
}

void ShowReport(Console& console, const Report& report, int indent) {
  console.Result(console.json() ? ReportJson(report, indent) : ReportText(report, console.out()));
}

}  // namespace folio
