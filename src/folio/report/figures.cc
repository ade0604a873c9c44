#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "folio/plot/bars.h"
#include "folio/plot/curves.h"
#include "folio/plot/heatmap.h"
#include "folio/plot/token_strip.h"
#include "folio/report/report.h"

namespace folio {
namespace {

Heatmap MapOf(const ReportPart& step) {
  const Matrix& values = step.values;
  return {.title = step.name,
          .caption = step.formula,
          .rows = values.rows(),
          .columns = values.columns(),
          .values = {values.values.begin(), values.values.end()},
          .row_labels = values.row_labels,
          .column_labels = values.column_labels,
          .row_axis = values.row_axis,
          .column_axis = values.column_axis};
}

std::string BarsOf(const ReportPart& step) {
  const Matrix& values = step.values;
  const std::vector<std::string>& labels =
      values.rows() == 1 ? values.column_labels : values.row_labels;
  std::vector<Bar> bars;
  for (size_t i = 0; i < values.values.size(); ++i) {
    const double value = values.values[i];
    Bar bar{.label = labels.empty() ? std::to_string(i) : labels[i]};
    bar.value = std::isfinite(value) ? value : 0;
    bar.muted = bar.value == 0;
    bar.note = CellText(values, values.rows() == 1 ? 0 : static_cast<int64_t>(i),
                        values.rows() == 1 ? static_cast<int64_t>(i) : 0);
    if (bar.note.empty()) bar.note = "–";
    bars.push_back(std::move(bar));
  }
  return BarsSvg(bars, {.title = step.name});
}

std::optional<double> NumberIn(const std::string& text) {
  double number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The row labels as numbers, else 0, 1, ...
std::vector<double> CurveX(const Matrix& values) {
  std::vector<double> x;
  for (const std::string& label : values.row_labels) {
    const std::optional<double> number = NumberIn(label);
    if (!number) break;
    x.push_back(*number);
  }
  if (static_cast<int64_t>(x.size()) == values.rows()) return x;
  x.clear();
  for (int64_t r = 0; r < values.rows(); ++r) x.push_back(static_cast<double>(r));
  return x;
}

std::string CurvesOf(const ReportPart& step) {
  const Matrix& values = step.values;
  const std::vector<double> x = CurveX(values);
  std::vector<Series> series;
  for (int64_t c = 0; c < values.columns(); ++c) {
    const auto column = static_cast<size_t>(c);
    Series line{.label = values.column_labels.empty() ? "" : values.column_labels[column]};
    line.x = x;
    for (int64_t r = 0; r < values.rows(); ++r) {
      line.y.push_back(values.At(r, c));
    }
    series.push_back(std::move(line));
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

}  // namespace

std::string PartFigure(const ReportPart& part) {
  if (part.drawing) return part.drawing();
  if (part.values.values.empty()) return "";
  switch (part.figure) {
    case FigureKind::kNone:
      break;
    case FigureKind::kHeatmap:
      return HeatmapSvg(MapOf(part), {});
    case FigureKind::kBars:
      return BarsOf(part);
    case FigureKind::kCurves:
      return CurvesOf(part);
    case FigureKind::kTokens:
      return TokensOf(part);
  }
  return "";
}

std::vector<std::pair<std::string, std::string>> ReportFigures(const Report& report) {
  std::vector<std::pair<std::string, std::string>> figures;
  int step = 0;
  for (const ReportPart& part : report.parts) {
    if (!part.name.empty()) ++step;
    std::string figure = PartFigure(part);
    if (figure.empty()) continue;
    figures.emplace_back(part.name.empty()
                             ? part.drawing_name + ".svg"
                             : fmt::format("{}-{:02}-{}.svg", report.topic, step, StepSlug(part)),
                         std::move(figure));
  }
  return figures;
}

}  // namespace folio
