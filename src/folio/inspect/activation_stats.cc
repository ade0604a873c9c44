#include "folio/inspect/activation_stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "folio/base/math.h"
#include "folio/io/json.h"
#include "folio/plot/bars.h"
#include "folio/plot/curves.h"
#include "folio/plot/html.h"
#include "folio/term/table.h"

namespace folio {
namespace {

constexpr double kOutlierDeviations = 6;
constexpr size_t kOutliersShown = 8;
constexpr float kDeadBelow = 1e-6f;

void AddMoments(const Tensor& x, ActivationStats& stats) {
  const double n = static_cast<double>(x.count());
  const std::span<const float> values(x.data<float>(), static_cast<size_t>(x.count()));
  double sum = 0, squares = 0;
  stats.min = stats.max = values[0];
  for (const double value : values) {
    sum += value;
    squares += value * value;
    stats.min = std::min(stats.min, value);
    stats.max = std::max(stats.max, value);
  }
  stats.mean = sum / n;
  stats.rms = std::sqrt(squares / n);
  double second = 0, fourth = 0;
  for (const double value : values) {
    const double square = (value - stats.mean) * (value - stats.mean);
    second += square;
    fourth += square * square;
  }
  const double variance = second / n;
  stats.std = std::sqrt(variance);
  stats.kurtosis = stats.min == stats.max ? 0 : fourth / n / (variance * variance);
}

void AddNorms(const Tensor& x, ActivationStats& stats) {
  std::vector<double> norms;
  for (int64_t t = 0; t < x.dim(0); ++t) {
    double squares = 0;
    for (const double value : Row(x, t)) squares += value * value;
    norms.push_back(std::sqrt(squares));
    if (norms.back() > stats.norm_max) {
      stats.norm_max = norms.back();
      stats.norm_max_position = t;
    }
  }
  stats.norm_median = Median(std::move(norms));
}

void AddOutliers(const Tensor& x, ActivationStats& stats) {
  const auto farther = [&](const Outlier& a, const Outlier& b) {
    return std::abs(a.value - stats.mean) > std::abs(b.value - stats.mean);
  };
  for (int64_t t = 0; t < x.dim(0); ++t) {
    const std::span<const float> row = Row(x, t);
    for (size_t c = 0; c < row.size(); ++c) {
      if (!(std::abs(row[c] - stats.mean) > kOutlierDeviations * stats.std)) continue;
      ++stats.outlier_count;
      const Outlier outlier{t, static_cast<int64_t>(c), row[c]};
      const auto at =
          std::upper_bound(stats.outliers.begin(), stats.outliers.end(), outlier, farther);
      stats.outliers.insert(at, outlier);
      if (stats.outliers.size() > kOutliersShown) stats.outliers.pop_back();
    }
  }
}

std::string PointName(TracePoint point) {
  return std::string(InfoOf(point).name);
}

// Three digits that count.
std::string Short(double value) {
  const double size = std::abs(value);
  if (size >= 1e5 || (size > 0 && size < 5e-4)) return fmt::format("{:.0e}", value);
  if (size >= 100) return fmt::format("{:.0f}", value);
  return size >= 10  ? fmt::format("{:.1f}", value)
         : size >= 1 ? fmt::format("{:.2f}", value)
                     : fmt::format("{:.3f}", value);
}

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

// The values that stand out most, in deviations.
TextTable Farthest(const std::vector<ActivationStats>& stats, const ModelText& text,
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
  TextTable table{
      .columns = {">layer", "point", ">position", "token", ">channel", ">value", ">deviations"}};
  for (const Far& far : all) {
    const auto position = static_cast<size_t>(far.outlier->position);
    table.rows.push_back({far.stats->outside() ? "" : fmt::format("{}", far.stats->layer),
                          PointName(far.stats->point), fmt::format("{}", position),
                          names.Shown(text.ids[position]), fmt::format("{}", far.outlier->channel),
                          Short(far.outlier->value), fmt::format("{:.1f}", far.deviations)});
  }
  return table;
}

TextTable StatisticsTable(const std::vector<ActivationStats>& stats, const Terminal& terminal) {
  TextTable table{.columns = {">layer", "point", ">rms", ">mean", ">std", ">max", ">norm",
                              ">longest", ">kurt", ">>6sd", ">dead"}};
  for (const ActivationStats& one : stats) {
    const auto count = [&](int64_t n) {
      return n == 0 ? "0" : Styled(terminal, Style::kWarning, fmt::format("{}", n));
    };
    table.rows.push_back(
        {one.outside() ? "" : fmt::format("{}", one.layer), PointName(one.point), Short(one.rms),
         Short(one.mean), Short(one.std), Short(one.max), Short(one.norm_median),
         fmt::format("{}@{}", Short(one.norm_max), one.norm_max_position), Short(one.kurtosis),
         count(one.outlier_count), one.point == TracePoint::kActivated ? count(one.dead) : ""});
  }
  return table;
}

}  // namespace

ActivationStats StatisticsOf(const Tensor& x) {
  ActivationStats stats{.width = x.dim(1)};
  AddMoments(x, stats);
  AddNorms(x, stats);
  AddOutliers(x, stats);
  return stats;
}

int64_t DeadUnits(const Tensor& x) {
  std::vector<bool> alive(static_cast<size_t>(x.dim(1)));
  for (int64_t t = 0; t < x.dim(0); ++t) {
    const std::span<const float> row = Row(x, t);
    for (size_t c = 0; c < row.size(); ++c) {
      if (!(std::abs(row[c]) < kDeadBelow)) alive[c] = true;
    }
  }
  return std::count(alive.begin(), alive.end(), false);
}

std::vector<ActivationStats> ActivationStatistics(const Trace& trace) {
  std::vector<ActivationStats> all;
  const auto add = [&](TracePoint point, int64_t layer) {
    if (!trace.Has(point)) return;
    const Tensor x = trace.At(point, layer);
    all.push_back(StatisticsOf(x));
    all.back().point = point;
    all.back().layer = layer;
    if (point == TracePoint::kActivated) all.back().dead = DeadUnits(x);
  };
  add(TracePoint::kEmbedded, 0);
  for (int64_t layer = 0; layer < trace.config().n_layer; ++layer) {
    for (const TracePoint point : Trace::AllPoints()) {
      if (point != TracePoint::kEmbedded && point != TracePoint::kFinal) add(point, layer);
    }
  }
  add(TracePoint::kFinal, 0);
  return all;
}

std::string ActivationsText(const std::vector<ActivationStats>& stats, const ModelText& text,
                            const TokenNames& names, const Terminal& terminal) {
  const TextTable statistics = StatisticsTable(stats, terminal),
                  farthest = Farthest(stats, text, names);
  std::string result = RenderTable(statistics);
  if (farthest.rows.empty()) return result;
  return result + "\nfarthest from the mean\n" + RenderTable(farthest);
}

std::string ActivationsJson(const std::vector<ActivationStats>& stats, const ModelText& text,
                            const TokenNames& names) {
  Json json = {{"schema", 1},
               {"left_out", text.left_out},
               {"tokens", names.AsJson(text.ids)},
               {"points", Json::array()}};
  for (const ActivationStats& one : stats) {
    Json outliers = Json::array();
    for (const Outlier& outlier : one.outliers) {
      outliers.push_back(
          {{"position", outlier.position}, {"channel", outlier.channel}, {"value", outlier.value}});
    }
    Json entry = {{"layer", nullptr},
                  {"point", PointName(one.point)},
                  {"width", one.width},
                  {"rms", one.rms},
                  {"mean", one.mean},
                  {"std", one.std},
                  {"min", one.min},
                  {"max", one.max},
                  {"norm_median", one.norm_median},
                  {"norm_max", one.norm_max},
                  {"norm_max_position", one.norm_max_position},
                  {"kurtosis", one.kurtosis},
                  {"outlier_count", one.outlier_count},
                  {"outliers", std::move(outliers)}};
    if (!one.outside()) entry["layer"] = one.layer;
    if (one.point == TracePoint::kActivated) entry["dead"] = one.dead;
    json["points"].push_back(std::move(entry));
  }
  return json.dump() + "\n";
}

std::string ActivationCurvesSvg(const std::vector<ActivationStats>& stats) {
  double ActivationStats::*const median = &ActivationStats::norm_median;
  std::vector<Series> series = {
      SeriesOf(stats, TracePoint::kOutput, "stream after the block", median),
      SeriesOf(stats, TracePoint::kAttention, "attention's part", median),
      SeriesOf(stats, TracePoint::kMlp, "feed-forward's part", median),
      SeriesOf(stats, TracePoint::kOutput, "stream, longest row", &ActivationStats::norm_max)};
  series.back().dashed = true;
  return CurvesSvg(series, {.title = "Lengths of the rows (median over positions)",
                            .x_label = "layer",
                            .y_label = "L2 norm",
                            .log_y = true});
}

std::string LayerActivationsSvg(const std::vector<ActivationStats>& stats) {
  std::vector<Bar> bars;
  for (const ActivationStats& one : stats) {
    bars.push_back({.label = PointName(one.point), .value = one.rms, .note = Short(one.rms)});
  }
  return BarsSvg(bars, {.title = fmt::format("Root mean square of the activations of layer {}",
                                             stats.front().layer)});
}

std::string ActivationsHtml(const std::vector<ActivationStats>& stats, const ModelText& text,
                            const TokenNames& names, bool one_layer) {
  HtmlPage page("Activations");
  page.Heading(1, "Activations");
  page.Paragraph(
      "For each point of each block, over all positions of the text: root mean square, mean, "
      "deviation and largest value; the median length of the rows, and the longest with its "
      "position; kurtosis (3 for a normal distribution), how many values are more than 6 "
      "deviations from the mean, and the units of the feed-forward layer that are off at every "
      "position.");
  page.Figure(one_layer ? LayerActivationsSvg(stats) : ActivationCurvesSvg(stats));
  const TextTable statistics = StatisticsTable(stats, {}), farthest = Farthest(stats, text, names);
  page.Table(statistics.columns, statistics.rows);
  if (!farthest.rows.empty()) {
    page.Heading(2, "Farthest from the mean");
    page.Table(farthest.columns, farthest.rows);
  }
  return std::move(page).Finish();
}

}  // namespace folio
