#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "folio/infer/sampler.h"

namespace folio {

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
