#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "folio/base/error.h"

namespace folio {

// A token, and how likely a model finds it.
struct TokenProbability {
  int32_t id = 0;
  double probability = 0;
  double log_probability = 0;  // ln of it, also where it is too small for a double
};

// ModelProbabilities holds the model's own prediction at the place of a token, before biases,
// penalties and cuts.
struct ModelProbabilities {
  double log_probability = 0;                    // ln, of the token that was chosen
  std::vector<TokenProbability> likeliest = {};  // likeliest first
  int64_t rank = 0;                              // tokens that were likelier
  double entropy = 0;                            // nats, of all tokens
};

// Throws a kDiverged Error if one of the logits is not finite: weights that are finite and too
// large make such, and no number that comes of them means anything.
void RequireFiniteLogits(std::span<const float> logits);
bool AreFinite(std::span<const float> logits);
// Returns the error that RequireFiniteLogits throws; `where` is the prediction that the logits are
// of, as a sentence, or "".
Error LogitsNotFinite(const std::string& where);

// The functions below take a row of logits and compute in double. Logits that are not numbers come
// last in every order.

struct LogitSummary {
  double log_sum = 0;  // ln of the sum of exp(logit)
  double entropy = 0;  // nats
};
LogitSummary Summarize(std::span<const float> logits);

// Returns log_sum alone.
double LogSum(std::span<const float> logits);

// Places before `id`: tokens that are likelier, or as likely with a lower id.
int64_t RankOf(std::span<const float> logits, int32_t id);

// The likeliest token, of equals that of the lowest id.
int32_t LikeliestToken(std::span<const float> logits);

// The `k` likeliest tokens (all if there are fewer), likeliest first (of equals the lower id).
std::vector<TokenProbability> TopTokens(std::span<const float> logits, int64_t k);
// Returns the same where log_sum is known.
std::vector<TokenProbability> TopTokens(std::span<const float> logits, int64_t k, double log_sum);

// Returns the probability and rank of the token, and the likeliest tokens.
ModelProbabilities ProbabilitiesOf(std::span<const float> logits, int32_t id, int64_t likeliest);

// Returns how much the second row's distribution misses of the first one's: the sum of p (ln p - ln
// q), in nats, never below 0 (S. Kullback, R. A. Leibler, 1951). The log_sums are those of the
// rows. REQUIRES: rows of one length.
double Divergence(std::span<const float> p, double p_log_sum, std::span<const float> q,
                  double q_log_sum);

}  // namespace folio
