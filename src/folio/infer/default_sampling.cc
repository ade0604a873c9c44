#include "folio/infer/default_sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "folio/base/fields.h"
#include "folio/base/strings.h"
#include "folio/infer/sampling_fields.h"

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
  SamplingOptions used = options, plain;
  const std::vector<Field> fields = SuggestedFields(used), without = SuggestedFields(plain);
  std::vector<std::string> values;
  for (size_t i = 0; i < fields.size(); ++i) {
    std::string name = fields[i].key, value = FieldText(fields[i]);
    std::ranges::replace(name, '_', '-');
    if (i == 0 || value != FieldText(without[i])) values.push_back(name + " " + value);
  }
  return fmt::format(
      "sampling: {} ({})", Join(values, ", "),
      model.sampling.any() ? "from " + model.sampling.source : "default for answers");
}

}  // namespace folio
