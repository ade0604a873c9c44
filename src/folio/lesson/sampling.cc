#include <utility>
#include <vector>

#include "folio/inspect/trace.h"
#include "folio/lesson/model_text.h"
#include "folio/lesson/sampling_steps.h"
#include "folio/lesson/step_ops.h"

namespace folio {
namespace {

Walk Begin() {
  return {.topic = "sampling",
          .title = "Sampling: from logits to the next token",
          .intro =
              "A model does not say what comes next: it gives every token a number. How a token is "
              "chosen from these numbers is not learnt but set, by a temperature, by cuts and by a "
              "random number.",
          .steps = {}};
}

}  // namespace

Walk ExplainSampling(Backend& backend, std::span<const float> logits,
                     std::span<const std::string> labels, const SamplingOptions& sampling) {
  RequireNumbers(logits);
  FOLIO_CHECK(labels.empty() || labels.size() == logits.size(), "a label for each logit");
  Walk walk = Begin();
  const auto label = [&](int32_t id) {
    return labels.empty() ? "#" + std::to_string(id) : labels[static_cast<size_t>(id)];
  };
  AddSamplingSteps(backend, {logits, label}, sampling, walk);
  return walk;
}

Walk ExplainSampling(Backend& backend, const ExplainModel& model, std::string_view text,
                     const SamplingOptions& sampling) {
  const ModelTokens tokens = TokensOf(model, text);
  const TracePoint points[] = {TracePoint::kEmbedded, TracePoint::kOutput};
  const Trace trace(backend, *model.weights, tokens.ids, points);
  std::vector<float> logits(static_cast<size_t>(trace.config().vocab_size));
  trace.Logits(trace.Stream(trace.config().n_layer), tokens.last(), tokens.last() + 1,
               Tensor(logits.data(), {1, trace.config().vocab_size}));
  Walk walk = Begin();
  const auto label = [&](int32_t id) { return IdLabel(*model.tokenizer, id); };
  AddSamplingSteps(backend, {logits, label}, sampling, walk);
  return walk;
}

}  // namespace folio
