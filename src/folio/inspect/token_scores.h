#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "folio/inspect/trace.h"

namespace folio {

struct TokenProbability {
  int32_t id = 0;
  double probability = 0;
};

// How well the model foresaw one token of a text.
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

// "37%", and of less than one "0.4%", "<.1%": at most four characters.
std::string PercentText(double probability);

// Of a row of logits, in double. Logits that are not numbers come last in every order.

struct LogitSummary {
  double log_sum = 0;  // ln of the sum of exp(logit)
  double entropy = 0;  // nats
};
LogitSummary Summarize(std::span<const float> logits);

// Places before `id`: tokens that are likelier, or as likely with a lower id.
int64_t RankOf(std::span<const float> logits, int32_t id);

// The `k` likeliest tokens (all if there are fewer), likeliest first (of equals the lower id).
std::vector<TokenProbability> TopTokens(std::span<const float> logits, int64_t k);
// The same, with log_sum known.
std::vector<TokenProbability> TopTokens(std::span<const float> logits, int64_t k, double log_sum);

}  // namespace folio
