#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/base/check.h"
#include "folio/plot/curves.h"
#include "folio/plot/heatmap.h"
#include "folio/plot/svg.h"
#include "folio/plot/token_strip.h"
#include "folio/report/report.h"

namespace folio {
namespace {

// ---- Figures ------------------------------------------------------------------------------------

std::string HeatmapOf(const ReportPart& step) {
  const Matrix& values = step.values;
  return HeatmapSvg({.title = step.name,
                     .caption = step.formula,
                     .rows = values.rows(),
                     .columns = values.columns(),
                     .values = {values.values.begin(), values.values.end()},
                     .row_labels = values.row_labels,
                     .column_labels = values.column_labels,
                     .row_axis = values.row_axis,
                     .column_axis = values.column_axis},
                    {});
}

std::string BarsOf(const ReportPart& step) {
  const Matrix& values = step.values;
  const bool row = values.rows() == 1;
  const std::vector<std::string>& labels = row ? values.column_labels : values.row_labels;
  std::vector<Bar> bars;
  for (int64_t i = 0; i < std::ssize(values.values); ++i) {
    const double value = values.values[static_cast<size_t>(i)];
    const std::string text = CellText(values, row ? 0 : i, row ? i : 0);
    bars.push_back({.label = labels.empty() ? std::to_string(i) : labels[static_cast<size_t>(i)],
                    .value = std::isfinite(value) ? value : 0,
                    .note = text.empty() ? "–" : text,
                    .muted = !std::isfinite(value) || value == 0});
  }
  return BarsSvg(bars, {.title = step.name});
}

// The row labels as numbers, else 0, 1, ...
std::vector<double> CurveX(const Matrix& values) {
  std::vector<double> x;
  for (const std::string& label : values.row_labels) {
    const char* end = label.data() + label.size();
    const auto [at, problem] = std::from_chars(label.data(), end, x.emplace_back());
    if (problem != std::errc() || at != end) break;
    if (std::ssize(x) == values.rows()) return x;
  }
  x.clear();
  for (int64_t r = 0; r < values.rows(); ++r) x.push_back(static_cast<double>(r));
  return x;
}

std::string CurvesOf(const ReportPart& step) {
  const Matrix& values = step.values;
  const std::vector<double> x = CurveX(values);
  std::vector<Series> series;
  for (int64_t c = 0; c < values.columns(); ++c) {
    const std::vector<std::string>& labels = values.column_labels;
    Series& line = series.emplace_back();
    if (!labels.empty()) line.label = labels[static_cast<size_t>(c)];
    line.x = x;
    for (int64_t r = 0; r < values.rows(); ++r) line.y.push_back(values.At(r, c));
  }
  return CurvesSvg(series, {.title = step.name, .x_label = values.row_axis});
}

std::string TokensOf(const ReportPart& step) {
  std::vector<StripToken> tokens;
  for (int64_t c = 0; c < step.values.columns(); ++c) {
    tokens.push_back({.text = step.values.column_labels[static_cast<size_t>(c)],
                      .note = CellText(step.values, 0, c)});
  }
  return TokenStripSvg(tokens, {.title = step.name});
}

// The figure of a part as an SVG document, or "".
std::string FigureOf(const ReportPart& part) {
  if (part.drawing) return part.drawing();
  if (part.values.values.empty()) return "";
  switch (part.figure) {
    case FigureKind::kNone:
      return "";
    case FigureKind::kHeatmap:
      return HeatmapOf(part);
    case FigureKind::kBars:
      return BarsOf(part);
    case FigureKind::kCurves:
      return CurvesOf(part);
    case FigureKind::kTokens:
      return TokensOf(part);
  }
  return "";
}

// ---- Pages --------------------------------------------------------------------------------------

// The page's colours are the same as in figures (svg.cc).
constexpr std::string_view kPageStyle = R"(
:root{color-scheme:light dark;--page:#fff;--ink:#1b1b1b;--muted:#5a5a5a;--line:#d6d8dc;
--code:#f4f5f7;--link:#0060a0}
@media (prefers-color-scheme:dark){:root{--page:#16181c;--ink:#ececec;--muted:#a9adb3;
--line:#3a3f47;--code:#1f2329;--link:#6ab7ee}}
*{box-sizing:border-box}
body{margin:0 auto;padding:2rem 1.25rem 4rem;max-width:54rem;background:var(--page);
color:var(--ink);font:1rem/1.6 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",
sans-serif;overflow-wrap:break-word}
h1,h2,h3,h4{line-height:1.25;margin:2.2em 0 .6em}
h1{font-size:1.8rem;margin-top:0}h2{font-size:1.35rem}h3{font-size:1.1rem}h4{font-size:1rem}
p{margin:0 0 1em;max-width:44rem}
a{color:var(--link)}
code,pre{font:.875rem/1.5 ui-monospace,"SF Mono",Consolas,"DejaVu Sans Mono",monospace}
pre{margin:0 0 1.2em;padding:.8em 1em;background:var(--code);border-radius:6px;overflow-x:auto}
figure{margin:1.6em 0 1.6em 50%;width:max-content;min-width:100%;max-width:calc(100vw - 3.5rem);
transform:translateX(-50%);overflow-x:auto}
figure svg{display:block}
.table{width:max-content;max-width:100%;max-height:32rem;overflow:auto;margin:0 0 1.2em}
table{border-collapse:separate;border-spacing:0;font-size:.9rem;font-variant-numeric:tabular-nums}
th,td{padding:.3em .8em;border-bottom:1px solid var(--line);text-align:left;vertical-align:top;
white-space:nowrap}
th{font-weight:600;background:var(--page)}
th[scope=col]{position:sticky;top:0;z-index:1}th[scope=row]{position:sticky;left:0}
nav{margin:0 0 1.6em;font-size:.9rem}nav ul{margin:0;padding:0;columns:16rem;list-style:none}
nav li{break-inside:avoid;padding-left:1.5rem;text-indent:-1rem}
nav .l2{padding-left:1rem;font-weight:600}
td.number,th.number{text-align:right}
)";

// The tags of `svg` with `prefix` before every id and every reference to one.
std::string WithPrefixedIds(std::string_view svg, std::string_view prefix) {
  static constexpr std::string_view kPlaces[] = {" id=\"", "url(#", "href=\"#"};
  std::string result;
  bool in_tag = false;
  for (size_t at = 0; at < svg.size();) {
    std::string_view found = svg.substr(at, 1);
    in_tag = found == "<" || (in_tag && found != ">");
    for (const std::string_view place : kPlaces) {
      if (in_tag && svg.substr(at).starts_with(place)) found = place;
    }
    result += found;
    if (found.size() > 1) result += prefix;
    at += found.size();
  }
  return result;
}

// One self-contained page that follows the reader's light or dark mode: no scripts, no fonts, no
// external files. Sections are in the order of the calls; a table of contents is inserted before
// the first heading of level 2 or 3, if there are several.
class Page {
 public:
  explicit Page(std::string_view title) : title_(title) {}

  // Levels are 1 to 3.
  void Heading(int level, std::string_view text) {
    std::string slug = Slug(text);
    if (slug.empty()) slug = "section";
    std::string anchor = slug;
    for (int i = 2; !anchors_.insert(anchor).second; ++i) anchor = fmt::format("{}-{}", slug, i);
    if (level > 1) {
      if (sections_++ == 0) contents_at_ = body_.size();
      contents_ += fmt::format("<li class=\"l{}\"><a href=\"#{}\">{}</a></li>\n", level, anchor,
                               XmlEscape(text));
    }
    Html(fmt::format("<h{0} id=\"{1}\">{2}</h{0}>", level, anchor, XmlEscape(text)));
  }
  void Paragraph(std::string_view text) { Html(fmt::format("<p>{}</p>", XmlEscape(text))); }
  // Preformatted; a browser drops one line break after the tag.
  void Code(std::string_view text) { Html(fmt::format("<pre>\n{}</pre>", XmlEscape(text))); }
  // Adds markup unchanged.
  void Html(std::string_view markup) { body_ += fmt::format("{}\n", markup); }
  // The first column names the rows. Names of right-aligned columns begin with ">"; every row has a
  // cell for each column.
  void Table(const TextTable& table) {
    std::vector<const char*> classes;
    body_ += "<div class=\"table\"><table><thead><tr>";
    for (const std::string& column : table.columns) {
      const bool number = column.starts_with('>');
      classes.push_back(number ? " class=\"number\"" : "");
      body_ += fmt::format("<th scope=\"col\"{}>{}</th>", classes.back(),
                           XmlEscape(column.substr(number ? 1 : 0)));
    }
    body_ += "</tr></thead>\n<tbody>\n";
    for (const std::vector<std::string>& row : table.rows) {
      FOLIO_CHECK(row.size() == classes.size(), "a row has a cell for each column");
      body_ += fmt::format("<tr><th scope=\"row\"{}>{}</th>", classes[0], XmlEscape(row[0]));
      for (size_t c = 1; c < row.size(); ++c) {
        body_ += fmt::format("<td{}>{}</td>", classes[c], XmlEscape(row[c]));
      }
      body_ += "</tr>\n";
    }
    Html("</tbody></table></div>");
  }
  // An SVG document, inline, with the ids of its parts made unique.
  void Figure(std::string_view svg) {
    const size_t begin = svg.find("<svg");
    FOLIO_CHECK(begin != std::string_view::npos, "a figure is no SVG document");
    // No heading's anchor contains a dot.
    const std::string prefix = fmt::format("figure{}.", ++figures_);
    body_ += fmt::format("<figure>\n{}</figure>\n", WithPrefixedIds(svg.substr(begin), prefix));
  }

  std::string Finish() && {
    constexpr int kFewest = 3;  // sections
    if (sections_ >= kFewest) {
      body_.insert(contents_at_,
                   fmt::format("<nav aria-label=\"contents\"><ul>\n{}</ul></nav>\n", contents_));
    }
    return fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
        "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n{}</body>\n</html>\n",
        XmlEscape(title_), kPageStyle, body_);
  }

 private:
  std::string title_, body_, contents_;
  std::set<std::string> anchors_;
  size_t contents_at_ = 0;  // in the body, before the first section below the title
  int sections_ = 0, figures_ = 0;
};

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

// All items of a list.
std::string Written(const Value& value) {
  std::string text = value.text;
  for (const Value& one : value.list) text += (text.empty() ? "" : "  ") + Written(one);
  return text;
}

void AddStep(Page& page, const ReportPart& step, int number) {
  page.Heading(3, fmt::format("{}. {}", number, step.name));
  if (!step.formula.empty()) page.Code(step.formula);
  page.Paragraph(step.text);
  // The page already shows name and formula.
  ReportPart untitled = step;
  untitled.name.clear();
  untitled.formula.clear();
  const std::string figure = FigureOf(untitled);
  if (!figure.empty()) page.Figure(figure);
  const std::string summary = fmt::format("values ({})", ShapeText(step.values));
  page.Html(fmt::format("<details{}><summary>{}</summary>\n{}</details>\n",
                        figure.empty() ? " open" : "", XmlEscape(summary), TableOf(step.values)));
}

}  // namespace

std::string ReportHtml(const Report& report) {
  Page page(report.title);
  page.Heading(1, report.title);
  if (!report.intro.empty()) page.Paragraph(report.intro);
  const int64_t columns = FactColumns(report);
  int number = 0;
  for (const ReportPart& part : report.parts) {
    if (part.medium == Medium::kTerminal) continue;
    const bool step = !part.name.empty();
    const std::string figure = step ? "" : FigureOf(part);
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
    if (!table.rows.empty()) page.Table(table);
  }
  return std::move(page).Finish();
}

std::vector<std::pair<std::string, std::string>> ReportFigures(const Report& report) {
  std::vector<std::pair<std::string, std::string>> figures;
  int step = 0;
  for (const ReportPart& part : report.parts) {
    if (!part.name.empty()) ++step;
    std::string figure = FigureOf(part);
    if (figure.empty()) continue;
    figures.emplace_back(part.name.empty()
                             ? part.drawing_name + ".svg"
                             : fmt::format("{}-{:02}-{}.svg", report.topic, step, Slug(part.name)),
                         std::move(figure));
  }
  return figures;
}

}  // namespace folio
