#pragma once

#include <cstdint>
#include <vector>

#include "folio/inspect/trace.h"

namespace folio {

struct Outlier {
  int64_t position = 0, channel = 0;
  double value = 0;
};

// Statistics for one point of one layer, over all positions of a trace.
struct ActivationStats {
  TracePoint point = TracePoint::kEmbedded;
  int64_t layer = 0;
  int64_t width = 0;
  double mean = 0, std = 0, min = 0, max = 0;
  double rms = 0;
  double norm_median = 0, norm_max = 0;  // lengths of rows
  int64_t norm_max_position = 0;
  double kurtosis = 0;  // of all values; 3 for a normal distribution, 0 if all are equal
  // Returns true for a point of the whole model instead of a layer: the embedding, the final norm.
  bool outside() const { return InfoOf(point).once; }
  // Values more than 6 deviations from the mean, the most extreme first, at most 8 of them.
  std::vector<Outlier> outliers = {};
  int64_t outlier_count = 0;  // the number of all such values
  int64_t dead = 0;           // kActivated only: units below 1e-6 in size at every position
};

// Returns the statistics of every kept point and layer: the embedding, layer by layer the points in
// the order of TracePoint, the final norm.
std::vector<ActivationStats> ActivationStatistics(const Trace& trace);

// Returns the statistics of x (T,width), float32, without `dead`.
ActivationStats StatisticsOf(const Tensor& x);

// The number of columns of x (T,width) below 1e-6 in size in every row.
int64_t DeadUnits(const Tensor& x);

}  // namespace folio
