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

// AttentionView says what `folio inspect attention` was asked to show.
struct AttentionView {
  std::optional<int64_t> layer = {}, head = {};  // all if not given; no head without a layer
  HeatScale scale = HeatScale::kSqrt;
  bool per_row = false;
  bool first_aside = false;
  std::string sort = "layer";
  bool maps = false, weights = false;  // of the heads that layer and head choose: what to keep
};

// One head on one text.
struct AttentionHead {
  int64_t layer = 0, head = 0;
  HeadScores scores = {};
  std::vector<float> weights = {};  // (T,T), if they are kept
  // Queries by keys with the future masked if the model is causal, without the first key if that is
  // set aside; if it is kept. `step` positions in one cell.
  Heatmap map = {};
  int64_t step = 1;
  double aside = 0;  // mean share of the first key, if it is set aside
};

struct AttentionText {
  ModelText text;
  std::vector<AttentionHead> heads = {};  // of all layers, layer by layer
};

// Runs the model on the text and looks at each head, after which `on_head` is called. Keeps what
// the view asks for, and of a single head the whole map.
AttentionText InspectHeads(const OpenedModel& model, const ModelText& text,
                           const AttentionView& view, const std::function<void()>& on_head);

// The names of the scores, as in --sort and in tables.
std::vector<std::string> ScoreNames();

// The tables of scores, one for each text, and with a layer and a head the maps too.
std::string AttentionTerminalText(std::span<const AttentionText> texts, const AttentionView& view,
                                  const TokenNames& names, const Terminal& terminal);
// The scores of all heads, and their weights where those were kept.
std::string AttentionJson(std::span<const AttentionText> texts, const AttentionView& view,
                          const GptConfig& config, const TokenNames& names);

// One figure of one text: the map of the one head of the view, or a grid of its heads with
// `columns` in a row.
std::string AttentionSvg(const AttentionText& text, const AttentionView& view,
                         const TokenNames& names, int64_t columns);
// The heads of one layer, a row of them for each text.
std::string AttentionBatchSvg(std::span<const AttentionText> texts, const AttentionView& view,
                              const TokenNames& names);
// A page with the figure of each text and the scores of its heads.
std::string AttentionHtml(std::span<const AttentionText> texts, const AttentionView& view,
                          const TokenNames& names, int64_t columns);

}  // namespace folio
