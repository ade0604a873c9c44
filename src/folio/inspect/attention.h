#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "folio/inspect/token_names.h"
#include "folio/plot/heatmap.h"
#include "folio/report/report.h"

namespace folio {

// Measures of what a head does: means over its queries except the first, which in a causal model
// only attends to itself. All 0 if there is no other query.
struct HeadScores {
  double entropy = 0;   // in nats
  double distance = 0;  // between query and key
  double first = 0;     // weight on the first token
  double previous = 0;  // weight on the token before the query
  double self = 0;      // weight on the query itself
  // Weight on earlier occurrences of the query's token; over the queries that have one.
  double duplicate = 0;
  // Weight on tokens that followed an earlier occurrence of the query's token; over the queries
  // that have one (C. Olsson et al., arXiv:2209.11895).
  double induction = 0;
};

// weights (T,T), rows are queries, 0 where masked; ids (T).
HeadScores ScoreHead(std::span<const float> weights, std::span<const int32_t> ids);

// The parts that `folio inspect attention` shows.
struct AttentionView {
  std::optional<int64_t> layer = {}, head = {};  // all if not given; no head without a layer
  HeatScale scale = HeatScale::kSqrt;
  bool per_row = false;
  bool first_aside = false;
  std::string sort = "layer";
  bool maps = false, weights = false;  // what to keep for the heads that layer and head choose
};

// One head on one text.
struct AttentionHead {
  int64_t layer = 0, head = 0;
  HeadScores scores = {};
  std::vector<float> weights = {};  // (T,T), if kept
  // Queries by keys with the future masked if the model is causal, without the first key if that is
  // set aside; if kept. `step` positions in each cell.
  Heatmap map = {};
  int64_t step = 1;
  double aside = 0;  // mean share of the first key, if it is set aside
};

struct AttentionText {
  ModelText text;
  std::vector<AttentionHead> heads = {};  // of all layers, layer by layer
};

// Runs the model on the text and measures each head, then calls `on_head`. Keeps what the view asks
// for; for a single head the whole map.
AttentionText InspectHeads(const OpenedModel& model, const ModelText& text,
                           const AttentionView& view, const std::function<void()>& on_head);

// The names of the scores for --sort and tables.
std::vector<std::string> ScoreNames();

// The scores of the view's heads, with a figure of their maps for each text: one head, which
// terminals show too, a grid of a layer's heads, or all heads. For one layer several texts are rows
// of one figure. JSON has all heads, and weights if they were kept. `texts` must outlive it.
Report AttentionReport(std::span<const AttentionText> texts, const AttentionView& view,
                       const GptConfig& config, const TokenNames& names);

}  // namespace folio
