#include "folio/inspect/attention.h"

#include <cmath>

#include "folio/base/check.h"

namespace folio {

HeadScores ScoreHead(std::span<const float> weights, std::span<const int32_t> ids) {
  const size_t T = ids.size();
  FOLIO_CHECK(weights.size() == T * T, "weights are (T,T)");
  HeadScores scores;
  double with_same = 0, with_after_same = 0;  // counts of queries
  for (size_t t = 1; t < T; ++t) {
    const float* row = &weights[t * T];
    bool same = false, after_same = false;
    double entropy = 0, distance = 0, duplicate = 0, induction = 0;
    for (size_t s = 0; s < T; ++s) {
      const double w = row[s];
      if (w > 0) entropy -= w * std::log(w);
      distance += w * static_cast<double>(s < t ? t - s : s - t);
      if (s >= t) continue;
      if (ids[s] == ids[t]) {
        duplicate += w;
        same = true;
      }
      if (s > 0 && ids[s - 1] == ids[t]) {
        induction += w;
        after_same = true;
      }
    }
    scores.entropy += entropy;
    scores.distance += distance;
    scores.first += row[0];
    scores.previous += row[t - 1];
    scores.self += row[t];
    scores.duplicate += duplicate;
    scores.induction += induction;
    with_same += same ? 1 : 0;
    with_after_same += after_same ? 1 : 0;
  }
  for (const NamedScore& score : kHeadScores) {
    const double queries = score.score == &HeadScores::duplicate   ? with_same
                           : score.score == &HeadScores::induction ? with_after_same
                                                                   : static_cast<double>(T) - 1;
    if (queries > 0) scores.*score.score /= queries;
  }
  return scores;
}

std::vector<std::string> ScoreNames() {
  std::vector<std::string> names;
  for (const NamedScore& score : kHeadScores) names.emplace_back(score.name);
  return names;
}

}  // namespace folio
