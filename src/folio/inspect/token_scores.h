#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "folio/infer/token_probabilities.h"
#include "folio/inspect/trace.h"

namespace folio {

// TokenScore says how well the model predicted one token of a text.
struct TokenScore {
  int32_t id = 0;
  double probability = 0;
  double surprise = 0;  // -ln probability, nats
  int64_t rank = 0;     // tokens that were likelier (of equals those of lower id)
  double entropy = 0;   // of the prediction, nats
  std::vector<TokenProbability> top = {};  // likeliest first
};

// Scores of tokens 1 .. T-1, each from the prediction before it. REQUIRES: the trace has kOutput.
std::vector<TokenScore> ScoreTokens(const Trace& trace, int64_t top);

// Scores of `targets`, each from the prediction of one of the rows from `first` on.
std::vector<TokenScore> ScoreTokens(const Trace& trace, int64_t first,
                                    std::span<const int32_t> targets, int64_t top);

// "37%", and of less than one "0.4%", "<.1%": at most four characters.
std::string PercentText(double probability);

}  // namespace folio
