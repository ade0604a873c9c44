#include "folio/infer/generator.h"

#include <fmt/format.h>

#include <algorithm>

#include "folio/base/check.h"
#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/infer/token_probabilities.h"

namespace folio {
namespace {

// How many tokens a full context of P forgets.
int64_t StrideOf(const GenerateOptions& options, int64_t P) {
  const int64_t most = std::max<int64_t>(P - 1, 1);
  if (!options.stride) return std::clamp<int64_t>(P / 2, 1, most);
  if (*options.stride >= 1 && *options.stride <= most) return *options.stride;
  throw UsageError(fmt::format("stride: {} is not between 1 and {}", *options.stride, most),
                   fmt::format("so many of the {} tokens of the context are forgotten when it is "
                               "full, and one must be left",
                               P));
}

// How many tokens of a prompt that is too long count.
int64_t KeptOf(const GenerateOptions& options, int64_t P) {
  return std::max<int64_t>(P - StrideOf(options, P), 1);
}

ModelProbabilities ProbabilitiesOf(std::span<const float> logits, int32_t id, int64_t likeliest) {
  const double log_sum = Summarize(logits).log_sum;
  return {.log_probability = logits[static_cast<size_t>(id)] - log_sum,
          .likeliest = TopTokens(logits, likeliest, log_sum)};
}

}  // namespace

Generator::Generator(Backend& backend, const GptWeights& weights)
    : decoder_(backend, weights.config(), weights.params()), V_(weights.config().vocab_size) {}

void Generator::Check(std::span<const int32_t> prompt, const GenerateOptions& options,
                      const std::string& name) const {
  CheckSampling(options.sampling, V_);
  const int64_t P = decoder_.capacity(), kept = KeptOf(options, P), length = std::ssize(prompt);
  if (length <= P || options.truncate) return;
  throw UsageError(fmt::format("{} is longer than the context: {} tokens of at most {}", name,
                               WithCommas(length), WithCommas(P)),
                   "the model cannot see all of it",
                   fmt::format("--truncate keeps its last {} tokens", WithCommas(kept)));
}

void Generator::Begin(std::span<const int32_t> prompt, const GenerateOptions& options) {
  FOLIO_CHECK(!prompt.empty(), "a text begins with at least one token");
  Check(prompt, options);
  const int64_t P = decoder_.capacity(), length = std::ssize(prompt);
  const int64_t seen = length <= P ? length : KeptOf(options, P);
  stats_ = {.prompt_tokens = seen, .dropped = length - seen, .stride = StrideOf(options, P)};
  tokens_.assign(prompt.begin(), prompt.end());
  text_.Clear();
}

std::span<const float> Generator::Next(size_t fresh) {
  const Tensor logits = decoder_.Append(text_, std::span<const int32_t>(tokens_).last(fresh));
  return {logits.data<float>(), static_cast<size_t>(logits.count())};
}

std::span<const float> Generator::Slide() {
  const double begin = SteadySeconds();
  const int64_t kept = decoder_.capacity() - stats_.stride;
  text_.Clear();
  const std::span<const float> logits = Next(static_cast<size_t>(kept + 1));
  ++stats_.slides;
  stats_.reread += kept;
  stats_.slide_seconds += SteadySeconds() - begin;
  return logits;
}

FinishReason Generator::Generate(std::span<const int32_t> prompt, const GenerateOptions& options,
                                 uint64_t sequence,
                                 const std::function<bool(int32_t id)>& on_token) {
  FOLIO_CHECK(options.stop_strings.empty(), "tokens alone have no strings to stop at");
  Begin(prompt, options);
  Sampler sampler(options.sampling, options.usable, options.stop_tokens);
  const double begin = SteadySeconds();
  for (int64_t n = 0; n < options.max_tokens; ++n) {
    const bool full = n > 0 && text_.size() == decoder_.capacity();
    if (full && options.when_full == WhenFull::kStop) return FinishReason::kContext;
    const std::span<const float> logits =
        full ? Slide() : Next(n == 0 ? static_cast<size_t>(stats_.prompt_tokens) : 1);
    const double seconds = SteadySeconds() - begin;
    if (n == 0) stats_.prompt_seconds = seconds;
    stats_.tokens = n;
    stats_.seconds = seconds - stats_.prompt_seconds;
    const int32_t id = sampler.Sample(logits, sequence, static_cast<uint64_t>(n),
                                      {.tokens = tokens_, .prompt_tokens = prompt.size()});
    if (std::ranges::find(options.stop_tokens, id) != options.stop_tokens.end()) {
      return FinishReason::kStop;
    }
    if (options.likeliest) probabilities_ = ProbabilitiesOf(logits, id, *options.likeliest);
    tokens_.push_back(id);
    if (!on_token(id)) return FinishReason::kCancelled;
  }
  return FinishReason::kLength;
}

}  // namespace folio
