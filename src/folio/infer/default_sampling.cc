#include "folio/infer/default_sampling.h"

#include <fmt/format.h>

#include <vector>

#include "folio/base/strings.h"

namespace folio {
namespace {

constexpr int64_t kMostAnswerTokens = 512;

// Measured with SmolLM2-135M-Instruct on 200 simple questions (scripts/chat_sampling.py).
SamplingOptions AnswerSampling() {
  return {.temperature = 0.3, .top_k = 40, .top_p = 0.9, .min_p = 0.05};
}

template <class T>
void Take(const std::optional<T>& suggested, T& value) {
  if (suggested) value = *suggested;
}

}  // namespace

SamplingOptions DefaultSampling(const OpenedModel& model, Writing writing) {
  const SuggestedSampling& suggested = model.sampling;
  if (!suggested.any()) return writing == Writing::kAnswer ? AnswerSampling() : SamplingOptions{};
  SamplingOptions options;
  Take(suggested.temperature, options.temperature);
  Take(suggested.top_k, options.top_k);
  Take(suggested.top_p, options.top_p);
  Take(suggested.min_p, options.min_p);
  Take(suggested.typical, options.typical);
  Take(suggested.repetition, options.penalties.repetition);
  return options;
}

GenerateOptions DefaultGeneration(const OpenedModel& model, Writing writing) {
  GenerateOptions options{.sampling = DefaultSampling(model, writing)};
  if (writing == Writing::kAnswer) options.max_tokens = kMostAnswerTokens;
  return options;
}

std::string DescribeSampling(const OpenedModel& model, const SamplingOptions& options) {
  const SamplingOptions plain;
  std::vector<std::string> values;
  const auto say = [&](const char* name, auto value, auto without) {
    if (value != without) values.push_back(fmt::format("{} {}", name, value));
  };
  values.push_back(fmt::format("temperature {}", options.temperature));
  say("top-k", options.top_k, plain.top_k);
  say("top-p", options.top_p, plain.top_p);
  say("min-p", options.min_p, plain.min_p);
  say("typical", options.typical, plain.typical);
  say("repetition-penalty", options.penalties.repetition, plain.penalties.repetition);
  return fmt::format(
      "sampling: {} ({})", Join(values, ", "),
      model.sampling.any() ? "from " + model.sampling.source : "default for answers");
}

}  // namespace folio
