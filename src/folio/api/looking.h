#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "folio/api/model.h"
#include "folio/eval/perplexity.h"
#include "folio/inspect/lens.h"
#include "folio/inspect/probabilities.h"

// The numbers of a Model that `folio inspect` and `folio eval` show. The functions wait for other
// calls of the model, and throw what it throws, CallStopped where `stop` returns true.
namespace folio {

// The logit lens at `positions` of the text, each once and in [0, count), in the order in which
// they are given; `top` likeliest tokens in each cell. For a model that was opened with float32
// matrices.
LensView LookThroughLens(const Model& model, std::span<const int32_t> ids,
                         std::vector<int64_t> positions, int64_t top, const StopRequest& stop = {});

// Scores the model's prediction of each token but the first of a text of any length, with the `top`
// likeliest tokens at each place, as ScoreTokens does, for matrices of any dtype.
TokenScores ScoreText(const Model& model, std::span<const int32_t> ids, int64_t top,
                      const StopRequest& stop = {});

// The perplexity of texts, read in windows as `reading` says.
std::vector<TextPerplexity> MeasureTexts(const Model& model, std::span<const MeasuredText> texts,
                                         const ReadingOptions& reading,
                                         const MeasureHooks& hooks = {});

}  // namespace folio
