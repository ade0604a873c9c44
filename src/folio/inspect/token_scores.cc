#include "folio/inspect/token_scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "folio/base/thread_pool.h"

namespace folio {
namespace {

struct Candidate {
  float logit = 0;
  int32_t id = 0;
};

float Ordered(float logit) {
  return std::isnan(logit) ? -std::numeric_limits<float>::infinity() : logit;
}

bool Likelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

TokenScore ScoreToken(std::span<const float> logits, int32_t id, int64_t top) {
  const LogitSummary summary = Summarize(logits);
  const double log_probability = logits[static_cast<size_t>(id)] - summary.log_sum;
  return {.id = id,
          .probability = std::exp(log_probability),
          .surprise = -log_probability,
          .rank = RankOf(logits, id),
          .entropy = summary.entropy,
          .top = TopTokens(logits, top, summary.log_sum)};
}

}  // namespace

std::vector<TokenScore> ScoreTokens(const Trace& trace, int64_t top) {
  const int64_t predictions = trace.T() - 1, V = trace.config().vocab_size;
  const Tensor stream = trace.Stream(trace.config().n_layer);
  std::vector<TokenScore> scores(static_cast<size_t>(predictions));
  if (predictions == 0) return scores;
  const int64_t chunk = LossChunkRows(predictions, V);
  MemoryPlan plan;
  const MemoryPlan::Id id = plan.Add("logits", Dtype::kF32, {chunk, V});
  plan.Place();
  const Arena arena(plan);
  for (int64_t begin = 0; begin < predictions; begin += chunk) {
    const int64_t end = std::min(predictions, begin + chunk);
    const Tensor logits = arena.Get(plan, id).Slice(0, end - begin);
    trace.Logits(stream, begin, end, logits);
    ParallelFor(end - begin, [&](int64_t row, int) {
      const size_t t = static_cast<size_t>(begin + row);
      scores[t] = ScoreToken({logits.data<float>() + row * V, static_cast<size_t>(V)},
                             trace.ids()[t + 1], top);
    });
  }
  return scores;
}

std::string PercentText(double probability) {
  const double percent = 100 * probability;
  if (percent >= 0.95 || percent == 0) return fmt::format("{:.0f}%", percent);
  return percent >= 0.05 ? fmt::format("{:.1f}%", percent) : "<.1%";
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
  const Candidate self{Ordered(logits[static_cast<size_t>(id)]), id};
  int64_t rank = 0;
  for (size_t v = 0; v < logits.size(); ++v) {
    rank += Likelier({Ordered(logits[v]), static_cast<int32_t>(v)}, self);
  }
  return rank;
}

std::vector<TokenProbability> TopTokens(std::span<const float> logits, int64_t k) {
  return TopTokens(logits, k, Summarize(logits).log_sum);
}

std::vector<TokenProbability> TopTokens(std::span<const float> logits, int64_t k, double log_sum) {
  const size_t count = std::min(static_cast<size_t>(std::max<int64_t>(k, 0)), logits.size());
  std::vector<Candidate> best;  // a heap, the least likely on top
  best.reserve(count);
  for (size_t v = 0; v < logits.size() && count > 0; ++v) {
    const Candidate next{Ordered(logits[v]), static_cast<int32_t>(v)};
    if (best.size() == count) {
      if (!Likelier(next, best.front())) continue;
      std::pop_heap(best.begin(), best.end(), Likelier);
      best.pop_back();
    }
    best.push_back(next);
    std::push_heap(best.begin(), best.end(), Likelier);
  }
  std::sort_heap(best.begin(), best.end(), Likelier);
  std::vector<TokenProbability> top;
  top.reserve(count);
  for (const Candidate& c : best) {
    top.push_back({c.id, std::exp(logits[static_cast<size_t>(c.id)] - log_sum)});
  }
  return top;
}

}  // namespace folio
