#include "folio/inspect/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "folio/base/check.h"
#include "folio/inspect/figures.h"
#include "folio/inspect/trace.h"

namespace folio {
namespace {

struct NamedScore {
  const char* name;
  double HeadScores::*score;
};
constexpr NamedScore kScores[] = {
    {"entropy", &HeadScores::entropy},     {"distance", &HeadScores::distance},
    {"first", &HeadScores::first},         {"previous", &HeadScores::previous},
    {"self", &HeadScores::self},           {"duplicate", &HeadScores::duplicate},
    {"induction", &HeadScores::induction},
};

// (T,T) weights as a map without the keys that a query cannot see.
Heatmap MapOf(const std::vector<float>& weights, int64_t T) {
  Heatmap map;
  map.rows = map.columns = T;
  map.values = weights;
  map.row_axis = "query";
  map.column_axis = "key";
  for (int64_t query = 0; query < T; ++query) {
    const auto row = map.values.begin() + query * T;
    std::fill(row + query + 1, row + T, std::numeric_limits<float>::quiet_NaN());
  }
  return map;
}

void KeepMap(const std::vector<float>& weights, int64_t T, const AttentionView& view, int64_t side,
             AttentionHead& head) {
  Heatmap map = MapOf(weights, T);
  if (view.first_aside) map = WithoutFirstColumn(map, &head.aside);
  head.step = PoolingStep(map, side);
  head.map = Pooled(map, head.step);
}

}  // namespace

AttentionText LookAtHeads(const OpenedModel& model, const ModelText& text,
                          const AttentionView& view,
                          const std::function<KeptOfHead(int64_t layer, int64_t head)>& keep,
                          const std::function<void()>& on_head) {
  const GptConfig& config = model.weights->config();
  const TracePoint points[] = {TracePoint::kQkv};
  const Trace trace(*model.backend, *model.weights, text.ids, points);
  const auto T = static_cast<int64_t>(text.ids.size());
  std::vector<float> weights(static_cast<size_t>(T * T));
  AttentionText seen{.text = text};
  for (int64_t layer = 0; layer < config.n_layer; ++layer) {
    for (int64_t h = 0; h < config.n_head; ++h) {
      trace.HeadWeights(layer, h, weights);
      AttentionHead head{.layer = layer, .head = h, .scores = ScoreHead(weights, text.ids)};
      const KeptOfHead kept = keep(layer, h);
      if (kept.map_side > 0) KeepMap(weights, T, view, kept.map_side, head);
      if (kept.weights) head.weights = weights;
      seen.heads.push_back(std::move(head));
      on_head();
    }
  }
  return seen;
}

std::vector<std::string> ScoreNames() {
  std::vector<std::string> names;
  for (const NamedScore& score : kScores) names.emplace_back(score.name);
  return names;
}

double ScoreNamed(const HeadScores& scores, const std::string& name) {
  for (const NamedScore& score : kScores) {
    if (name == score.name) return scores.*score.score;
  }
  FOLIO_CHECK(false, "a score has a name");
  return 0;
}

std::vector<size_t> SortedHeads(std::span<const AttentionText> texts, const AttentionView& view) {
  const std::vector<AttentionHead>& heads = texts.front().heads;
  std::vector<size_t> order;
  for (size_t i = 0; i < heads.size(); ++i) {
    const bool chosen = (!view.layer || heads[i].layer == *view.layer) &&
                        (!view.head || heads[i].head == *view.head);
    if (chosen) order.push_back(i);
  }
  if (view.sort == "layer") return order;
  std::vector<double> sums(heads.size());
  for (const AttentionText& text : texts) {
    for (const size_t i : order) {
      const double score = ScoreNamed(text.heads[i].scores, view.sort);
      sums[i] += std::isfinite(score) ? score : std::numeric_limits<double>::lowest();
    }
  }
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return sums[a] > sums[b]; });
  return order;
}

}  // namespace folio
