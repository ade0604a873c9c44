#include "folio/api/looking.h"

#include <fmt/format.h>

#include <utility>

#include "folio/base/error.h"
#include "folio/inspect/trace.h"

namespace folio {
LensView LookThroughLens(const Model& model, std::span<const int32_t> ids,
                         std::vector<int64_t> positions, int64_t top, const StopRequest& stop) {
  RequireFloat32(model);
  const Computing alone(model);
  const Trace trace(*model.opened().backend, *model.opened().weights, ids,
                    {TracePoint::kEmbedded, TracePoint::kOutput});
  if (positions.empty()) throw UsageError("positions: none", "expected at least one");
  for (const int64_t position : positions) {
    if (position >= 0 && std::cmp_less(position, ids.size())) continue;
    throw UsageError(fmt::format("positions: {}", position),
                     fmt::format("expected 0 to {}, of {} tokens", ids.size() - 1, ids.size()));
  }
  LensView view{.text = {.name = "text", .ids = {ids.begin(), ids.end()}},
                .positions = std::move(positions),
                .layers = model.config().n_layer + 1,
                .cells = {}};
  view.cells = LogitLens(trace, view.positions, top, [&](int64_t) {
    if (stop && stop()) throw CallStopped{};
  });
  return view;
}

TokenScores ScoreText(const Model& model, std::span<const int32_t> ids, int64_t top,
                      const StopRequest& stop) {
  ModelText text{.name = "text", .ids = {ids.begin(), ids.end()}};
  RequireTwoTokens(text, "the first token has no prediction");
  const Tokenizer* tokenizer = model.opened().tokenizer.get();
  std::vector<TokenScore> scores;
  for (const TextWindow& window : ScoreWindows(text, model.context(), tokenizer)) {
    const auto first = static_cast<size_t>(window.first);
    const auto score = [&](size_t place, std::span<const float> logits) {
      if (place - first >= window.targets.size()) return;  // behind the last token
      RequireFiniteLogits(logits);
      scores.push_back(ScoreToken(logits, window.targets[place - first], top));
    };
    model.ReadLogits(window.ids, first, score, stop);
  }
  return CollectScores(std::move(text), std::move(scores), model.config().vocab_size, tokenizer);
}

std::vector<TextPerplexity> MeasureTexts(const Model& model, std::span<const MeasuredText> texts,
                                         const ReadingOptions& reading, const MeasureHooks& hooks) {
  for (const MeasuredText& text : texts) {
    if (!text.data_set) model.tokenizer();
  }
  const Computing alone(model);
  return MeasurePerplexity(model.opened(), texts, {.reading = reading}, hooks);
}

}  // namespace folio
