#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "folio/inspect/head_scores.h"
#include "folio/inspect/token_names.h"
#include "folio/plot/heatmap.h"
#include "folio/term/console.h"

namespace folio {

// What `folio inspect attention` was asked to show.
struct AttentionView {
  std::optional<int64_t> layer = {}, head = {};  // all if not given; no head without a layer
  HeatScale scale = HeatScale::kSqrt;
  bool per_row = false;
  bool first_aside = false;
  std::string sort = "layer";
};

// One head on one text.
struct AttentionHead {
  int64_t layer = 0, head = 0;
  HeadScores scores = {};
  std::vector<float> weights = {};  // (T,T), if they were asked for
  // Queries by keys with the future masked, without the first key if that is set aside; if it was
  // asked for. `step` positions in one cell.
  Heatmap map = {};
  int64_t step = 1;
  double aside = 0;  // mean share of the first key, if it is set aside
};

struct AttentionText {
  ModelText text;
  std::vector<AttentionHead> heads = {};  // of all layers, layer by layer
};

// What is kept of a head beside its scores.
struct KeptOfHead {
  bool weights = false;
  int64_t map_side = 0;  // largest number of rows of the map; 0 for no map
};

// Runs the model on the text and looks at each head; `keep` says what to keep of one, and
// `on_head` is called after each.
AttentionText LookAtHeads(const OpenedModel& model, const ModelText& text,
                          const AttentionView& view,
                          const std::function<KeptOfHead(int64_t layer, int64_t head)>& keep,
                          const std::function<void()>& on_head);

// The names of the scores, as in --sort and in tables.
std::vector<std::string> ScoreNames();
double ScoreNamed(const HeadScores& scores, const std::string& name);

// Indices of the view's heads in AttentionText::heads: by layer and head, or those with the largest
// mean score over the texts first.
std::vector<size_t> SortedHeads(std::span<const AttentionText> texts, const AttentionView& view);

// The tables of scores, one for each text, and with a layer and a head the maps too.
std::string AttentionTerminalText(std::span<const AttentionText> texts, const AttentionView& view,
                                  const TokenNames& names, const Terminal& terminal);

// One figure of one text: the map of the one head of the view, or a grid of its heads with
// `columns` in a row.
std::string AttentionSvg(const AttentionText& text, const AttentionView& view,
                         const TokenNames& names, int64_t columns);
// The heads of one layer, a row of them for each text.
std::string AttentionBatchSvg(std::span<const AttentionText> texts, const AttentionView& view,
                              const TokenNames& names);

}  // namespace folio
