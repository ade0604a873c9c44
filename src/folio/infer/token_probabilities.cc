#include "folio/infer/token_probabilities.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "folio/base/check.h"

namespace folio {
namespace {

struct RankedToken {
  float logit = 0;
  int32_t id = 0;
};

float Ordered(float logit) {
  return std::isnan(logit) ? -std::numeric_limits<float>::infinity() : logit;
}

bool RanksBefore(const RankedToken& a, const RankedToken& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

}  // namespace

bool AreFinite(std::span<const float> logits) {
  bool finite = true;  // without a way out of the loop, which is made vectors of
  for (const float logit : logits) finite &= std::isfinite(logit);
  return finite;
}

void RequireFiniteLogits(std::span<const float> logits) {
  if (!AreFinite(logits)) throw LogitsNotFinite("");
}

Error LogitsNotFinite(const std::string& where) {
  return {ErrorKind::kDiverged, "the logits of the model are not finite", where,
          "the weights are too large or damaged: use an earlier checkpoint, or copy the files "
          "again; folio inspect activations shows where it begins"};
}

LogitSummary Summarize(std::span<const float> logits) {
  FOLIO_CHECK(!logits.empty(), "no logits");
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0, products = 0;
  for (const float logit : logits) {
    const double x = logit - largest, e = std::exp(x);
    sum += e;
    if (e > 0) products += e * x;  // 0 * -infinity is 0 here
  }
  const double log = std::log(sum);
  return {.log_sum = largest + log, .entropy = log - products / sum};
}

int64_t RankOf(std::span<const float> logits, int32_t id) {
  const RankedToken self{Ordered(logits[static_cast<size_t>(id)]), id};
  int64_t rank = 0;
  for (size_t v = 0; v < logits.size(); ++v) {
    rank += RanksBefore({Ordered(logits[v]), static_cast<int32_t>(v)}, self);
  }
  return rank;
}

std::vector<TokenProbability> TopTokens(std::span<const float> logits, int64_t k) {
  return TopTokens(logits, k, Summarize(logits).log_sum);
}

std::vector<TokenProbability> TopTokens(std::span<const float> logits, int64_t k, double log_sum) {
  const size_t count = std::min(static_cast<size_t>(std::max<int64_t>(k, 0)), logits.size());
  std::vector<RankedToken> best;  // a heap, the least likely on top
  best.reserve(count);
  for (size_t v = 0; v < logits.size() && count > 0; ++v) {
    const RankedToken next{Ordered(logits[v]), static_cast<int32_t>(v)};
    if (best.size() == count) {
      if (!RanksBefore(next, best.front())) continue;
      std::pop_heap(best.begin(), best.end(), RanksBefore);
      best.pop_back();
    }
    best.push_back(next);
    std::push_heap(best.begin(), best.end(), RanksBefore);
  }
  std::sort_heap(best.begin(), best.end(), RanksBefore);
  std::vector<TokenProbability> top;
  top.reserve(count);
  for (const RankedToken& c : best) {
    const double log_probability = logits[static_cast<size_t>(c.id)] - log_sum;
    top.push_back({c.id, std::exp(log_probability), log_probability});
  }
  return top;
}

double LogSum(std::span<const float> logits) {
  FOLIO_CHECK(!logits.empty(), "no logits");
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

int32_t LikeliestToken(std::span<const float> logits) {
  FOLIO_CHECK(!logits.empty(), "no logits");
  return static_cast<int32_t>(std::ranges::max_element(logits, {}, Ordered) - logits.begin());
}

ModelProbabilities ProbabilitiesOf(std::span<const float> logits, int32_t id, int64_t likeliest) {
  const LogitSummary summary = Summarize(logits);
  return {.log_probability = logits[static_cast<size_t>(id)] - summary.log_sum,
          .likeliest = TopTokens(logits, likeliest, summary.log_sum),
          .rank = RankOf(logits, id),
          .entropy = summary.entropy};
}

double Divergence(std::span<const float> p, double p_log_sum, std::span<const float> q,
                  double q_log_sum) {
  FOLIO_CHECK(p.size() == q.size(), "rows of different vocabularies");
  double sum = 0;
  for (size_t v = 0; v < p.size(); ++v) {
    const double log_p = p[v] - p_log_sum, probability = std::exp(log_p);
    if (probability > 0) sum += probability * (log_p - (q[v] - q_log_sum));
  }
  return std::max(sum, 0.0);  // rounding may leave less; NaN stays
}

}  // namespace folio
