#include "folio/inspect/head_scores.h"

#include <cmath>

#include "folio/base/check.h"

namespace folio {
namespace {

// Mean over the queries that have a value.
struct Mean {
  double sum = 0;
  int64_t count = 0;

  void Add(double value) {
    sum += value;
    ++count;
  }
  double value() const { return count == 0 ? 0 : sum / static_cast<double>(count); }
};

}  // namespace

HeadScores ScoreHead(std::span<const float> weights, std::span<const int32_t> ids) {
  const size_t T = ids.size();
  FOLIO_CHECK(weights.size() == T * T, "weights are (T,T)");
  Mean entropy, distance, first, previous, self, duplicate, induction;
  for (size_t t = 1; t < T; ++t) {
    const float* row = &weights[t * T];
    double uncertainty = 0, reach = 0, same = 0, after_same = 0;
    bool has_same = false, has_after_same = false;
    for (size_t s = 0; s < T; ++s) {
      const double w = row[s];
      if (w > 0) uncertainty -= w * std::log(w);
      reach += w * static_cast<double>(s < t ? t - s : s - t);
      if (s >= t) continue;
      if (ids[s] == ids[t]) {
        same += w;
        has_same = true;
      }
      if (s > 0 && ids[s - 1] == ids[t]) {
        after_same += w;
        has_after_same = true;
      }
    }
    entropy.Add(uncertainty);
    distance.Add(reach);
    first.Add(row[0]);
    previous.Add(row[t - 1]);
    self.Add(row[t]);
    if (has_same) duplicate.Add(same);
    if (has_after_same) induction.Add(after_same);
  }
  return {.entropy = entropy.value(),
          .distance = distance.value(),
          .first = first.value(),
          .previous = previous.value(),
          .self = self.value(),
          .duplicate = duplicate.value(),
          .induction = induction.value()};
}

}  // namespace folio
