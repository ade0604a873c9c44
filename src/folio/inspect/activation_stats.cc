#include "folio/inspect/activation_stats.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "folio/base/math.h"

namespace folio {
namespace {

constexpr double kOutlierDeviations = 6;
constexpr size_t kOutliersShown = 8;
constexpr float kDeadBelow = 1e-6f;

void AddMoments(const Tensor& x, ActivationStats& stats) {
  const double n = static_cast<double>(x.count());
  const std::span<const float> values(x.host<float>(), static_cast<size_t>(x.count()));
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

}  // namespace folio
