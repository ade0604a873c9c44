#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/lesson/render.h"
#include "folio/lesson/step_table.h"
#include "folio/plot/html.h"
#include "folio/plot/svg.h"

namespace folio {
namespace {

constexpr int64_t kMaxRows = 64, kMaxColumns = 32;

std::string Cell(const StepValues& values, int64_t row, int64_t column) {
  if (row < 0 || column < 0) return "…";
  return IsMasked(values, row, column) ? "·" : CellText(values, row, column);
}

std::string Label(const std::vector<std::string>& labels, int64_t index) {
  if (index < 0) return "…";
  return labels.empty() ? "" : XmlEscape(labels[static_cast<size_t>(index)]);
}

// The page has name and formula already.
Step Untitled(Step step) {
  step.name.clear();
  step.formula.clear();
  return step;
}

std::string TableOf(const StepValues& values) {
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
      html += fmt::format("<td class=\"number\">{}</td>", Cell(values, r, c));
    }
    html += "</tr>\n";
  }
  html += "</table></div>\n";
  const auto say_left_out = [&](const std::vector<int64_t>& shown, int64_t count,
                                std::string_view what) {
    const int64_t missing = LeftOut(shown, count);
    if (missing > 0) html += fmt::format("<p>({} {} in the middle left out)</p>\n", missing, what);
  };
  say_left_out(rows, values.rows(), "rows");
  say_left_out(columns, values.columns(), "columns");
  return html;
}

}  // namespace

std::string WalkthroughHtml(const Walkthrough& walk) {
  HtmlPage page(walk.title);
  page.Heading(1, walk.title);
  page.Paragraph(walk.intro);
  int number = 0;
  for (const Step& step : walk.steps) {
    if (!step.section.empty()) page.Heading(2, step.section);
    page.Heading(3, fmt::format("{}. {}", ++number, step.name));
    if (!step.formula.empty()) page.Code(step.formula);
    page.Paragraph(step.why);
    const std::string figure = StepFigure(Untitled(step));
    const std::string summary = fmt::format("the numbers ({})", ShapeText(step.values));
    if (!figure.empty()) page.Figure(figure);
    page.Html(fmt::format("<details{}><summary>{}</summary>\n{}</details>\n",
                          figure.empty() ? " open" : "", XmlEscape(summary), TableOf(step.values)));
  }
  return std::move(page).Finish();
}

}  // namespace folio
