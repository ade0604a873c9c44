#include "folio/infer/penalties.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "folio/base/check.h"

namespace folio {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

}  // namespace

Penalties::Penalties(PenaltyOptions options, std::vector<int32_t> ends)
    : options_(std::move(options)), ends_(std::move(ends)) {}

float& Penalties::At(int32_t id) {
  FOLIO_CHECK(id >= 0 && static_cast<size_t>(id) < changed_.size(), "an id without a logit");
  return changed_[static_cast<size_t>(id)];
}

std::span<const float> Penalties::Apply(std::span<const float> logits, const TokenHistory& text) {
  const PenaltyOptions& o = options_;
  const bool penalises = o.repetition != 1 || o.presence != 0 || o.frequency != 0;
  const bool too_short = std::cmp_less(text.written().size(), o.min_tokens);
  if (o.bias.empty() && !penalises && o.no_repeat_ngram == 0 && !too_short) return logits;
  changed_.assign(logits.begin(), logits.end());
  for (const LogitBias& bias : o.bias) At(bias.id) += static_cast<float>(bias.value);
  if (penalises) PenaliseRepetition(text);
  if (o.no_repeat_ngram > 0) BanRepeatedNgrams(text.tokens);
  if (too_short) {
    for (const int32_t id : ends_) {
      if (std::cmp_less(id, logits.size())) At(id) = kImpossible;
    }
  }
  return changed_;
}

void Penalties::PenaliseRepetition(const TokenHistory& text) {
  counts_.resize(changed_.size());
  const auto count = [&](int32_t id) -> int32_t& {
    FOLIO_CHECK(id >= 0 && static_cast<size_t>(id) < counts_.size(), "an id without a logit");
    return counts_[static_cast<size_t>(id)];
  };
  for (const int32_t id : text.written()) {
    if (count(id)++ == 0) found_.push_back(id);
  }
  for (const int32_t id : text.tokens.first(text.prompt_tokens)) {
    if (count(id) != 0) continue;
    count(id) = -1;
    found_.push_back(id);
  }
  const auto repetition = static_cast<float>(options_.repetition);
  for (const int32_t id : found_) {
    float& logit = At(id);
    logit = logit < 0 ? logit * repetition : logit / repetition;
    const int32_t times = std::exchange(count(id), 0);
    if (times > 0) {
      logit -= static_cast<float>(options_.presence + times * options_.frequency);
    }
  }
  found_.clear();
}

void Penalties::BanRepeatedNgrams(std::span<const int32_t> tokens) {
  if (std::cmp_greater(options_.no_repeat_ngram, tokens.size())) return;
  const size_t before = static_cast<size_t>(options_.no_repeat_ngram) - 1;
  const auto last = tokens.last(before);
  for (size_t next = before; next < tokens.size(); ++next) {
    if (std::ranges::equal(tokens.subspan(next - before, before), last)) {
      At(tokens[next]) = kImpossible;
    }
  }
}

}  // namespace folio
