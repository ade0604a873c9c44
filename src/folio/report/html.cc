#include "folio/plot/html.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/plot/svg.h"
#include "folio/report/report.h"

namespace folio {
namespace {

constexpr int64_t kMaxRows = 64, kMaxColumns = 32;

std::string NumberText(const Matrix& values, int64_t row, int64_t column) {
  if (row < 0 || column < 0) return "…";
  return IsMasked(values, row, column) ? "·" : CellText(values, row, column);
}

std::string Label(const std::vector<std::string>& labels, int64_t index) {
  if (index < 0) return "…";
  return labels.empty() ? "" : XmlEscape(labels[static_cast<size_t>(index)]);
}

std::string TableOf(const Matrix& values) {
  const std::vector<int64_t> rows = CutMiddle(values.rows(), kMaxRows);
  const std::vector<int64_t> columns = CutMiddle(values.columns(), kMaxColumns);
  std::string html = "<div class=\"table\"><table>";
  if (!values.column_labels.empty()) {
    html += "<tr><th></th>";
    for (const int64_t c : columns) {
      html +=
          fmt::format("<th class=\"number\" scope=\"col\">{}</th>", Label(values.column_labels, c));
    }
    html += "</tr>\n";
  }
  for (const int64_t r : rows) {
    html += fmt::format("<tr><th scope=\"row\">{}</th>", Label(values.row_labels, r));
    for (const int64_t c : columns) {
      html += fmt::format("<td class=\"number\">{}</td>", NumberText(values, r, c));
    }
    html += "</tr>\n";
  }
  html += "</table></div>\n";
  for (const std::string& said : {LeftOutText(rows, values.rows(), "rows"),
                                  LeftOutText(columns, values.columns(), "columns")}) {
    if (!said.empty()) html += fmt::format("<p>{}</p>\n", said);
  }
  return html;
}

// Of a list all.
std::string Written(const Value& value) {
  std::string text = value.text;
  for (const Value& one : value.list) text += (text.empty() ? "" : "  ") + Written(one);
  return text;
}

void AddStep(HtmlPage& page, const ReportPart& step, int number) {
  page.Heading(3, fmt::format("{}. {}", number, step.name));
  if (!step.formula.empty()) page.Code(step.formula);
  page.Paragraph(step.text);
  // The page has name and formula already.
  ReportPart untitled = step;
  untitled.name.clear();
  untitled.formula.clear();
  const std::string figure = PartFigure(untitled);
  if (!figure.empty()) page.Figure(figure);
  const std::string summary = fmt::format("the numbers ({})", ShapeText(step.values));
  page.Html(fmt::format("<details{}><summary>{}</summary>\n{}</details>\n",
                        figure.empty() ? " open" : "", XmlEscape(summary), TableOf(step.values)));
}

}  // namespace

std::string ReportHtml(const Report& report) {
  HtmlPage page(report.title);
  page.Heading(1, report.title);
  if (!report.intro.empty()) page.Paragraph(report.intro);
  const int64_t columns = FactColumns(report);
  int number = 0;
  for (const ReportPart& part : report.parts) {
    if (part.medium == Medium::kTerminal) continue;
    const bool step = !part.name.empty();
    const std::string figure = step ? "" : PartFigure(part);
    const std::string facts = FactLines(part.facts, columns, Written);
    const TextTable table = AsTextTable(part.table, Written);
    const bool any = step || !(part.text + figure + facts).empty() || !table.rows.empty();
    if (any && !part.heading.empty()) page.Heading(2, part.heading);
    if (step) {
      AddStep(page, part, ++number);
      continue;
    }
    if (!part.text.empty()) page.Paragraph(part.text);
    if (!figure.empty()) page.Figure(figure);
    if (!facts.empty()) page.Code(facts);
    if (!table.rows.empty()) page.Table(table.columns, table.rows);
  }
  return std::move(page).Finish();
}

}  // namespace folio
