#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "folio/commands/inspect/inspect_reports.h"
#include "folio/io/json.h"
#include "folio/plot/curves.h"

namespace folio {
namespace {

// One value of a point over the layers.
Series SeriesOf(const std::vector<ActivationStats>& stats, TracePoint point, const char* label,
                double ActivationStats::*value) {
  Series series{.label = label};
  for (const ActivationStats& one : stats) {
    if (one.point != point) continue;
    series.x.push_back(static_cast<double>(one.layer));
    series.y.push_back(one.*value);
  }
  return series;
}

std::string CurvesOf(const std::vector<ActivationStats>& stats) {
  double ActivationStats::*const median = &ActivationStats::norm_median;
  std::vector<Series> series = {
      SeriesOf(stats, TracePoint::kOutput, "stream after the block", median),
      SeriesOf(stats, TracePoint::kAttention, "attention output", median),
      SeriesOf(stats, TracePoint::kMlp, "feed-forward output", median),
      SeriesOf(stats, TracePoint::kOutput, "stream, longest row", &ActivationStats::norm_max)};
  series.back().dashed = true;
  return CurvesSvg(series, {.title = "Norms of the rows (median over positions)",
                            .x_label = "layer",
                            .y_label = "L2 norm",
                            .log_y = true});
}

std::string LayerBars(const std::vector<ActivationStats>& stats) {
  std::vector<Bar> bars;
  for (const ActivationStats& one : stats) {
    bars.push_back({.label = std::string(InfoOf(one.point).name),
                    .value = one.rms,
                    .note = Value::Short(one.rms).text});
  }
  return BarsSvg(bars, {.title = fmt::format("Root mean square of the activations of layer {}",
                                             stats.front().layer)});
}

Value LayerOf(const ActivationStats& one) {
  return one.outside() ? Value() : Value(one.layer);
}

std::vector<Cell> RowOf(const ActivationStats& one) {
  Json outliers = Json::array();
  for (const Outlier& outlier : one.outliers) {
    outliers.push_back(
        {{"position", outlier.position}, {"channel", outlier.channel}, {"value", outlier.value}});
  }
  const bool activated = one.point == TracePoint::kActivated;
  return {{"layer", ">layer", LayerOf(one)},
          {"point", "point", InfoOf(one.point).name},
          {"width", "", one.width},
          {"rms", ">rms", Value::Short(one.rms)},
          {"mean", ">mean", Value::Short(one.mean)},
          {"std", ">std", Value::Short(one.std)},
          {"min", "", one.min},
          {"max", ">max", Value::Short(one.max)},
          {"norm_median", ">norm", Value::Short(one.norm_median)},
          {"norm_max", ">longest",
           Value::Short(one.norm_max).In(fmt::format("@{}", one.norm_max_position))},
          {"norm_max_position", "", one.norm_max_position},
          {"kurtosis", ">kurt", Value::Short(one.kurtosis)},
          {"outlier_count", ">>6sd", Value(one.outlier_count).WarnsIf(one.outlier_count > 0)},
          {"outliers", "", std::move(outliers)},
          {activated ? "dead" : "", ">dead",
           activated ? Value(one.dead).WarnsIf(one.dead > 0) : Value()}};
}

// The values that stand out most, in deviations.
ReportTable Farthest(const std::vector<ActivationStats>& stats, const ModelText& text,
                     const TokenNames& names) {
  constexpr size_t kMost = 8;
  struct Far {
    const ActivationStats* stats;
    const Outlier* outlier;
    double deviations;
  };
  std::vector<Far> all;
  for (const ActivationStats& one : stats) {
    for (const Outlier& outlier : one.outliers) {
      all.push_back({&one, &outlier, std::abs(outlier.value - one.mean) / one.std});
    }
  }
  std::ranges::stable_sort(all, std::greater<>(), &Far::deviations);
  if (all.size() > kMost) all.resize(kMost);
  ReportTable table;
  for (const auto& [one, outlier, deviations] : all) {
    table.rows.push_back(
        {{"", ">layer", LayerOf(*one)},
         {"", "point", InfoOf(one->point).name},
         {"", ">position", outlier->position},
         {"", "token", names.Shown(text.ids[static_cast<size_t>(outlier->position)])},
         {"", ">channel", outlier->channel},
         {"", ">value", Value::Short(outlier->value)},
         {"", ">deviations", Value::Fixed(deviations, 1)}});
  }
  return table;
}

}  // namespace

Report ActivationsReport(const std::vector<ActivationStats>& stats, const ModelText& text,
                         const TokenNames& names, bool one_layer) {
  Report report{.title = "Activations",
                .data = {{"left_out", text.left_out}, {"tokens", names.AsJson(text.ids)}}};
  report.parts.push_back(
      {.text = "For each point of each block, over all positions of the text: root mean square, "
               "mean, deviation and largest value; the median length of the rows, and the longest "
               "with its position; kurtosis (3 for a normal distribution), how many values are "
               "more than 6 deviations from the mean, and the units of the feed-forward layer that "
               "are off at every position.",
       .drawing_name = "activations",
       .drawing = [&stats, one_layer] { return one_layer ? LayerBars(stats) : CurvesOf(stats); },
       .medium = Medium::kPage});
  ReportTable table{.key = "points"};
  for (const ActivationStats& one : stats) table.rows.push_back(RowOf(one));
  report.parts.push_back({.table = std::move(table)});
  report.parts.push_back(
      {.heading = "farthest from the mean", .table = Farthest(stats, text, names)});
  return report;
}

}  // namespace folio
