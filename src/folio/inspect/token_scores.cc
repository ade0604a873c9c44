#include "folio/inspect/token_scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "folio/base/thread_pool.h"
#include "folio/model/layers/head.h"

namespace folio {
namespace {

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
  return ScoreTokens(trace, 0, trace.ids().subspan(1), top);
}

std::vector<TokenScore> ScoreTokens(const Trace& trace, int64_t first,
                                    std::span<const int32_t> targets, int64_t top) {
  const int64_t predictions = std::ssize(targets), V = trace.config().vocab_size;
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
    trace.Logits(stream, first + begin, first + end, logits);
    ParallelFor(end - begin, [&](int64_t row, int) {
      const size_t t = static_cast<size_t>(begin + row);
      scores[t] =
          ScoreToken({logits.data<float>() + row * V, static_cast<size_t>(V)}, targets[t], top);
    });
  }
  return scores;
}

std::string PercentText(double probability) {
  const double percent = 100 * probability;
  if (percent >= 0.95 || percent == 0) return fmt::format("{:.0f}%", percent);
  return percent >= 0.05 ? fmt::format("{:.1f}%", percent) : "<.1%";
}

}  // namespace folio
