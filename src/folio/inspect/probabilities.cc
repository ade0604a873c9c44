#include "folio/inspect/probabilities.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numbers>
#include <utility>

#include "folio/base/thread_pool.h"
#include "folio/model/layers/head.h"

namespace folio {
namespace {

// Scores of `targets`, each predicted by one of the rows from `first` on.
std::vector<TokenScore> ScoreTargets(const Trace& trace, int64_t first,
                                     std::span<const int32_t> targets, int64_t top) {
  const int64_t predictions = std::ssize(targets), V = trace.config().vocab_size;
  const Tensor stream = trace.Stream(trace.config().n_layer);
  std::vector<TokenScore> scores(static_cast<size_t>(predictions));
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
      scores[t] = ScoreToken(Row(logits, row), targets[t], top);
    });
  }
  return scores;
}

constexpr std::array<int64_t, kRankClasses - 1> kClassEnds = {1, 10, 100, 1000};

double ClassHeat(int rank_class) {
  return static_cast<double>(rank_class) / (kRankClasses - 1);
}

}  // namespace

TokenScore ScoreToken(std::span<const float> logits, int32_t id, int64_t top) {
  ModelProbabilities predicted = ProbabilitiesOf(logits, id, top);
  return {.id = id,
          .probability = std::exp(predicted.log_probability),
          .surprise = -predicted.log_probability,
          .rank = predicted.rank,
          .entropy = predicted.entropy,
          .top = std::move(predicted.likeliest)};
}

TokenScores ScoreTokens(const OpenedModel& model, ModelText text, int64_t top) {
  return ScoreTokens(*model.backend, *model.weights, model.tokenizer.get(), std::move(text), top);
}

TokenScores ScoreTokens(Backend& backend, const GptWeights& weights, const Tokenizer* tokenizer,
                        ModelText text, int64_t top) {
  const int64_t n_positions = weights.config().n_positions;
  FOLIO_CHECK(text.mask.empty() || std::ssize(text.ids) <= n_positions, "a mask of windows");
  std::vector<TokenScore> scores;
  for (const TextWindow& window : ScoreWindows(text, n_positions, tokenizer)) {
    const Trace trace(backend, weights, window.ids, {TracePoint::kOutput}, text.mask);
    std::ranges::move(ScoreTargets(trace, window.first, window.targets, top),
                      std::back_inserter(scores));
  }
  return CollectScores(std::move(text), std::move(scores), weights.config().vocab_size, tokenizer);
}

std::vector<TextWindow> ScoreWindows(const ModelText& text, int64_t n_positions,
                                     const Tokenizer* tokenizer) {
  WindowShape shape = ChooseWindows(0, 0, n_positions);
  if (tokenizer != nullptr && BeginsWith(text.ids, tokenizer->before())) {
    shape.before = tokenizer->before();
  }
  return CutWindows(text.ids, shape);
}

TokenScores CollectScores(ModelText text, std::vector<TokenScore> tokens, int64_t vocab_size,
                          const Tokenizer* tokenizer) {
  TokenScores scores{
      .text = std::move(text), .tokens = std::move(tokens), .vocab_size = vocab_size};
  const TokenNames names(tokenizer);
  double bytes = 0;
  for (const TokenScore& score : scores.tokens) {
    scores.surprise += score.surprise;
    scores.entropy += score.entropy;
    bytes += static_cast<double>(names.Bytes(score.id).size());
  }
  if (bytes > 0) scores.bits_per_byte = scores.surprise / std::numbers::ln2 / bytes;
  scores.surprise /= static_cast<double>(scores.tokens.size());
  scores.entropy /= static_cast<double>(scores.tokens.size());
  return scores;
}

int RankClass(int64_t rank) {
  return static_cast<int>(std::ranges::upper_bound(kClassEnds, rank) - kClassEnds.begin());
}

std::string RankClassName(int rank_class) {
  const auto c = static_cast<size_t>(rank_class);
  if (c == 0) return "1";
  if (c == kClassEnds.size()) return fmt::format("{}-", kClassEnds.back() + 1);
  return fmt::format("{}-{}", kClassEnds[c - 1] + 1, kClassEnds[c]);
}

std::vector<int64_t> RankClasses(const TokenScores& scores) {
  std::vector<int64_t> counts(kRankClasses);
  for (const TokenScore& score : scores.tokens)
    ++counts[static_cast<size_t>(RankClass(score.rank))];
  return counts;
}

double TokenHeat(const TokenScores& scores, const TokenScore& score, const std::string& by) {
  double heat = ClassHeat(RankClass(score.rank));
  if (by == "probability") heat = 1 - score.probability;
  if (by == "entropy") {
    heat = score.entropy / std::log(static_cast<double>(std::max<int64_t>(scores.vocab_size, 2)));
  }
  return std::isfinite(heat) ? std::clamp(heat, 0.0, 1.0) : 1;
}

}  // namespace folio
