#include "folio/infer/sampler.h"

#include <algorithm>
#include <cmath>

#include "folio/base/check.h"
#include "folio/base/rng.h"

namespace folio {
namespace {

bool Likelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

}  // namespace

std::span<const Candidate> Sampler::Candidates(std::span<const float> logits) {
  candidates_.clear();
  const size_t ids = usable_.empty() ? logits.size() : std::min(usable_.size(), logits.size());
  for (size_t i = 0; i < ids; ++i) {
    if (!usable_.empty() && !usable_[i]) continue;
    candidates_.push_back({static_cast<int32_t>(i), logits[i], 0});
  }
  FOLIO_CHECK(!candidates_.empty(), "no token to choose from");
  if (options_.temperature == 0) {
    const Candidate best = *std::min_element(candidates_.begin(), candidates_.end(), Likelier);
    candidates_.assign(1, best);
    candidates_[0].probability = 1;
    return candidates_;
  }
  const size_t k = static_cast<size_t>(options_.top_k);
  if (k > 0 && k < candidates_.size()) {
    const auto rest = candidates_.begin() + options_.top_k;
    std::nth_element(candidates_.begin(), rest - 1, candidates_.end(), Likelier);
    const float least = (rest - 1)->logit;
    const auto end = std::partition(rest, candidates_.end(),
                                    [&](const Candidate& c) { return c.logit == least; });
    candidates_.erase(end, candidates_.end());
  }
  std::sort(candidates_.begin(), candidates_.end(), Likelier);
  const double largest = candidates_.front().logit;
  double total = 0;
  for (Candidate& c : candidates_) {
    c.probability = std::exp((c.logit - largest) / options_.temperature);
    total += c.probability;
  }
  double sum = 0;
  size_t kept = 0;
  while (kept < candidates_.size() && sum < options_.top_p * total) {
    sum += candidates_[kept++].probability;
  }
  candidates_.resize(std::max<size_t>(kept, 1));
  if (kept == 0) sum = candidates_.front().probability;
  for (Candidate& c : candidates_) c.probability /= sum;
  return candidates_;
}

int32_t Sampler::Sample(std::span<const float> logits, uint64_t sequence, uint64_t position) {
  const std::span<const Candidate> candidates = Candidates(logits);
  const CounterRng rng(options_.seed, RngStream(RngPurpose::kSampling, sequence));
  double left = rng.Uniform(position);
  for (const Candidate& c : candidates) {
    left -= c.probability;
    if (left < 0) return c.id;
  }
  return candidates.back().id;
}

}  // namespace folio
