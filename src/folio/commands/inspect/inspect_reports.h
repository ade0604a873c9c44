#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "folio/infer/opened_model.h"
#include "folio/infer/token_probabilities.h"
#include "folio/inspect/activation_stats.h"
#include "folio/inspect/attention.h"
#include "folio/inspect/embeddings.h"
#include "folio/inspect/lens.h"
#include "folio/inspect/probabilities.h"
#include "folio/inspect/token_names.h"
#include "folio/model/params.h"
#include "folio/plot/heatmap.h"
#include "folio/report/report.h"

namespace folio {

// Reports of what the room inspect has computed, each in a file of its name. What is passed by
// reference must outlive the report.

// A token as cells for programs alone: the members of TokenNames::AsJson.
std::vector<Cell> TokenCells(const TokenNames& names, int32_t id);
// "·the 0.123  ·a 0.045", and an array of the tokens with their probabilities.
Value LikeliestTokens(const TokenNames& names, std::span<const TokenProbability> tokens);

// Describes the model at `path`, in any format (formats/model_formats.h): its configuration, the
// tokenizer, and how each tensor is stored; of a model that folio refuses the tensors that are
// there, and why. The adapter of a directory is added, unless that is empty. Throws a kInput Error
// where there is no model, or nothing of it can be read, or the adapter is not one for it.
Report DescribeModel(const std::filesystem::path& path, const std::filesystem::path& adapter);

// Describes a model by its parameters: as a whole, then one by one and together. Nothing is
// allocated.
Report DescribeParameters(const ParamTable& table);

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

// The scores of the view's heads, with a figure of their maps for each text: of one head, which a
// terminal has too, a grid of a layer's, or all heads. Several texts of one layer are rows of one
// figure. JSON has all heads, and weights where those were kept.
Report AttentionReport(std::span<const AttentionText> texts, const AttentionView& view,
                       const GptConfig& config, const TokenNames& names);

// A table of the likeliest tokens, as a figure too, and all that is known of each position, which
// on a terminal only a single one has.
Report LensReport(const LensView& view, const TokenNames& names);

// Sizes, the neighbours of the token or the longest and shortest tokens, and figures: tokens,
// positions, norms, and neighbours with a token.
Report EmbeddingsReport(const EmbeddingsView& view, const GptWeights& weights,
                        const TokenNames& names);

// A table of the statistics, the farthest values, and a figure: the lengths of the rows over the
// layers or, of the statistics of one layer, the root mean squares of its points.
Report ActivationsReport(const std::vector<ActivationStats>& stats, const ModelText& text,
                         const TokenNames& names, bool one_layer);

// The text with a colour for each token, a table of the tokens, and the means.
Report TokenScoresReport(const TokenScores& scores, const std::string& by, const TokenNames& names);

}  // namespace folio
