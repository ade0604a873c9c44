#include "folio/infer/generator.h"

#include <algorithm>

#include "folio/base/check.h"
#include "folio/base/clock.h"

namespace folio {

Generator::Generator(Backend& backend, const GptWeights& weights)
    : decoder_(backend, weights.config(), weights.params()) {}

std::span<const float> Generator::Next(std::span<const int32_t> tokens, size_t fresh) {
  const size_t P = static_cast<size_t>(decoder_.capacity());
  if (tokens.size() > P) {
    stats_.slid = true;
    decoder_.Clear();
    fresh = P;
  }
  const Tensor& logits = decoder_.Append(tokens.subspan(tokens.size() - fresh));
  return {logits.data<float>(), static_cast<size_t>(logits.count())};
}

FinishReason Generator::Generate(std::span<const int32_t> prompt, const GenerateOptions& options,
                                 uint64_t sequence,
                                 const std::function<bool(int32_t id)>& on_token) {
  FOLIO_CHECK(!prompt.empty(), "a text begins with at least one token");
  Sampler sampler(options.sampling, options.usable);
  decoder_.Clear();
  tokens_.assign(prompt.begin(), prompt.end());
  size_t fresh = tokens_.size();
  stats_ = {.prompt_tokens = std::min(std::ssize(tokens_), decoder_.capacity())};
  const double begin = SteadySeconds();
  for (int64_t n = 0; n < options.max_tokens; ++n) {
    const std::span<const float> logits = Next(tokens_, fresh);
    const double seconds = SteadySeconds() - begin;
    if (n == 0) stats_.prompt_seconds = seconds;
    stats_.tokens = n;
    stats_.seconds = seconds - stats_.prompt_seconds;
    const int32_t id = sampler.Sample(logits, sequence, static_cast<uint64_t>(n));
    if (std::find(options.stop_tokens.begin(), options.stop_tokens.end(), id) !=
        options.stop_tokens.end()) {
      return FinishReason::kStop;
    }
    if (!on_token(id)) return FinishReason::kCancelled;
    tokens_.push_back(id);
    fresh = 1;
  }
  return FinishReason::kLength;
}

}  // namespace folio
