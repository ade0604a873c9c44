#include "folio/infer/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/math.h"
#include "folio/base/rng.h"
#include "folio/infer/token_probabilities.h"

namespace folio {
namespace {

constexpr float kCannotCome = -std::numeric_limits<float>::infinity();

uint64_t KeyOf(float logit, size_t id) {
  const uint32_t bits = std::bit_cast<uint32_t>(logit + 0.0F);  // one zero
  const uint32_t ordered = bits >> 31 != 0 ? ~bits : bits | 0x80000000U;
  return uint64_t{ordered} << 32 | static_cast<uint32_t>(~id);
}

float LogitOf(uint64_t key) {
  const auto ordered = static_cast<uint32_t>(key >> 32);
  return std::bit_cast<float>(ordered ^ ((ordered >> 31) - 1) ^ (ordered & 0x80000000U));
}

int32_t IdOf(uint64_t key) {
  return static_cast<int32_t>(~static_cast<uint32_t>(key));
}

// Sorts the first `count` of `all`, or more; `sorted` of them are in order already. Steps grow, so
// that sorting to the end in many calls costs as much as in one.
template <class T, class Before>
void SortMore(std::vector<T>& all, size_t& sorted, size_t count, Before before) {
  constexpr size_t kFirstStep = 64, kGrowth = 8;
  count = std::min(count, all.size());
  if (count <= sorted) return;
  count = std::min(std::max({count, kFirstStep, kGrowth * sorted}), all.size());
  const auto begin = all.begin() + static_cast<ptrdiff_t>(sorted);
  const auto end = all.begin() + static_cast<ptrdiff_t>(count);
  if (end != all.end()) std::nth_element(begin, end, all.end(), before);
  std::sort(begin, end, before);
  sorted = count;
}

// The ids that may be chosen, as ranges.
std::vector<std::pair<size_t, size_t>> UsableRanges(const std::vector<bool>& usable,
                                                    std::vector<int32_t> banned) {
  std::vector<std::pair<size_t, size_t>> ranges;
  std::ranges::sort(banned);
  const auto add = [&](size_t from, size_t to) {
    for (const int32_t id : banned) {
      const auto ban = static_cast<size_t>(id);
      if (ban < from || ban >= to) continue;
      if (ban > from) ranges.emplace_back(from, ban);
      from = ban + 1;
    }
    if (from < to) ranges.emplace_back(from, to);
  };
  if (usable.empty()) add(0, std::numeric_limits<size_t>::max());
  for (size_t from = 0; from < usable.size(); ++from) {
    if (!usable[from]) continue;
    size_t to = from;
    while (to < usable.size() && usable[to]) ++to;
    add(from, to);
    from = to;
  }
  return ranges;
}

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
      if (std::cmp_less(id, logits.size())) At(id) = kCannotCome;
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
      At(tokens[next]) = kCannotCome;
    }
  }
}

void CheckSampling(const SamplingOptions& options, int64_t V) {
  const PenaltyOptions& penalties = options.penalties;
  const auto within = [](const char* name, double value, bool ok) {
    if (!ok) throw UsageError(fmt::format("{}: {} is out of range", name, value));
  };
  const auto share = [](double p) { return p > 0 && p <= 1; };
  within("temperature", options.temperature,
         options.temperature >= 0 && std::isfinite(options.temperature));
  within("top_k", static_cast<double>(options.top_k), options.top_k >= 0);
  within("top_p", options.top_p, share(options.top_p));
  within("min_p", options.min_p, options.min_p >= 0 && options.min_p <= 1);
  within("typical", options.typical, share(options.typical));
  within("repetition", penalties.repetition,
         penalties.repetition > 0 && std::isfinite(penalties.repetition));
  within("presence", penalties.presence, std::isfinite(penalties.presence));
  within("frequency", penalties.frequency, std::isfinite(penalties.frequency));
  within("no_repeat_ngram", static_cast<double>(penalties.no_repeat_ngram),
         penalties.no_repeat_ngram >= 0);
  within("min_tokens", static_cast<double>(penalties.min_tokens), penalties.min_tokens >= 0);
  for (const LogitBias& bias : penalties.bias) {
    within("logit bias", bias.value, !std::isnan(bias.value));
  }
  const auto check = [&](int32_t id, const char* what) {
    if (id >= 0 && id < V) return;
    throw UsageError(fmt::format("{}: the model has no token {}", what, id),
                     fmt::format("the token ids are 0 to {}", V - 1));
  };
  for (const LogitBias& bias : options.penalties.bias) check(bias.id, "logit bias");
  for (const int32_t id : options.banned) check(id, "banned tokens");
  for (const int32_t id : options.forced) check(id, "forced tokens");
}

Sampler::Sampler(SamplingOptions options, const std::vector<bool>& usable,
                 std::vector<int32_t> ends)
    : options_(std::move(options)),
      penalties_(options_.penalties, std::move(ends)),
      usable_(UsableRanges(usable, options_.banned)) {}

// A logit that top_k tokens reach: the least of as many maxima of groups, if there are so many.
float Sampler::ReachedByTopK(std::span<const float> logits) {
  constexpr size_t kLanes = 8, kGroup = 8 * kLanes;
  const auto k = static_cast<size_t>(options_.top_k);
  maxima_.clear();
  for (const auto& [from, to] : usable_) {
    const size_t end = std::min(to, logits.size());
    for (size_t id = from; k > 0 && id + kGroup <= end; id += kGroup) {
      std::array<float, kLanes> largest;
      largest.fill(kCannotCome);
      for (size_t i = 0; i < kGroup; i += kLanes) {
        for (size_t lane = 0; lane < kLanes; ++lane) {
          const float logit = logits[id + i + lane];
          largest[lane] = logit > largest[lane] ? logit : largest[lane];
        }
      }
      maxima_.push_back(*std::ranges::max_element(largest));
    }
  }
  if (k == 0 || maxima_.size() < k) return kCannotCome;
  const auto kth = maxima_.begin() + options_.top_k - 1;
  std::nth_element(maxima_.begin(), kth, maxima_.end(), std::greater<>());
  return *kth;
}

void Sampler::Gather(std::span<const float> logits) {
  const float least = ReachedByTopK(logits);
  keys_.resize(logits.size());
  size_t count = 0;
  for (const auto& [from, to] : usable_) {
    const size_t end = std::min(to, logits.size());
    for (size_t id = from; id < end; ++id) {
      keys_[count] = KeyOf(logits[id], id);
      count += logits[id] >= least && logits[id] != kCannotCome;
    }
  }
  keys_.resize(count);
}

void Sampler::TakeLikeliest(std::span<const float> logits) {
  float largest = kCannotCome;
  size_t best = 0;
  for (const auto& [from, to] : usable_) {
    const size_t end = std::min(to, logits.size());
    for (size_t id = from; id < end; ++id) {
      if (logits[id] > largest) {
        largest = logits[id];
        best = id;
      }
    }
  }
  if (largest != kCannotCome) keys_.push_back(KeyOf(largest, best));
}

double Sampler::Exponent(Key key) const {
  const double logit = LogitOf(key);
  return logit == largest_ ? 0 : (logit - largest_) / options_.temperature;  // infinite ones too
}

double Sampler::Weight(Key key) const {
  return std::exp(Exponent(key));
}

double Sampler::Total() {
  exponents_.resize(keys_.size());
  for (size_t i = 0; i < keys_.size(); ++i) exponents_[i] = Exponent(keys_[i]);
  weights_ = exponents_;
  Exponentials(weights_.data(), weights_.size());
  double total = 0;
  for (const double weight : weights_) total += weight;
  return total;
}

void Sampler::SortFirst(size_t count) {
  SortMore(keys_, sorted_, count, std::greater<>());
}

void Sampler::CutTopK() {
  const auto k = static_cast<size_t>(options_.top_k);
  if (k == 0 || k >= keys_.size()) return;
  SortFirst(k);
  const auto rest = keys_.begin() + options_.top_k;
  const float least = LogitOf(*(rest - 1));
  const auto end =
      std::partition(rest, keys_.end(), [&](Key key) { return LogitOf(key) == least; });
  keys_.erase(end, keys_.end());
  std::sort(keys_.begin() + options_.top_k, keys_.end(), std::greater<>());
  sorted_ = keys_.size();
}

void Sampler::CutTopP() {
  if (options_.top_p >= 1) return;
  const double goal = options_.top_p * Total();
  double sum = 0;
  size_t kept = 0;
  while (kept < keys_.size() && (kept == 0 || sum < goal)) {
    SortFirst(kept + 1);
    sum += Weight(keys_[kept++]);
  }
  keys_.resize(kept);
  sorted_ = kept;
}

void Sampler::CutMinP() {
  if (options_.min_p <= 0) return;
  const double surely_less = std::log(options_.min_p) - 1e-9;  // no need of its exponential
  std::erase_if(
      keys_, [&](Key key) { return Exponent(key) < surely_less || Weight(key) < options_.min_p; });
  sorted_ = std::min(sorted_, keys_.size());
}

void Sampler::CutTypical() {
  if (options_.typical >= 1) return;
  const double total = Total(), log_total = std::log(total);
  double entropy = 0;
  for (const Key key : keys_) {
    const double weight = Weight(key);
    if (weight > 0) entropy += weight / total * (log_total - Exponent(key));
  }
  distances_.clear();
  for (const Key key : keys_) {
    distances_.emplace_back(std::abs(log_total - Exponent(key) - entropy), key);
  }
  const auto nearer = [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second > b.second;
  };
  size_t sorted = 0, kept = 0;
  double sum = 0;
  for (; kept < distances_.size(); ++kept) {
    SortMore(distances_, sorted, kept + 1, nearer);
    const bool reached = kept > 0 && sum >= options_.typical * total;
    if (reached && distances_[kept].first != distances_[kept - 1].first) break;
    sum += Weight(distances_[kept].second);
  }
  keys_.clear();
  for (size_t i = 0; i < kept; ++i) keys_.push_back(distances_[i].second);
  sorted_ = 0;
  SortMore(keys_, sorted_, keys_.size(), std::greater<>());
}

void Sampler::Cut(std::span<const float> logits, const TokenHistory& text) {
  keys_.clear();
  sorted_ = 0;
  const std::span<const float> changed = penalties_.Apply(logits, text);
  const size_t n = text.written().size();
  if (n < options_.forced.size()) {
    const auto id = static_cast<size_t>(options_.forced[n]);
    FOLIO_CHECK(id < logits.size(), "a forced token without a logit");
    keys_.push_back(KeyOf(logits[id], id));
  } else if (options_.temperature == 0) {
    TakeLikeliest(changed);
  } else {
    Gather(changed);
  }
  if (keys_.empty()) {
    if (std::ranges::any_of(logits, [](float logit) { return std::isnan(logit); })) {
      throw LogitsNotFinite("");
    }
    throw UsageError("no token is allowed next",
                     "bans, --no-repeat-ngram and --min-tokens exclude all tokens",
                     "ban fewer tokens, or allow the text to end earlier");
  }
  largest_ = LogitOf(*std::ranges::max_element(keys_));
  total_ = 1;
  if (keys_.size() == 1) return;
  CutTopK();
  CutTopP();
  CutMinP();
  CutTypical();
  total_ = Total();
}

std::span<const Candidate> Sampler::Candidates(std::span<const float> logits,
                                               const TokenHistory& text) {
  Cut(logits, text);
  SortFirst(keys_.size());
  candidates_.clear();
  for (const Key key : keys_) {
    const double weight = keys_.size() == 1 ? 1 : Weight(key);
    candidates_.push_back({IdOf(key), LogitOf(key), weight / total_});
  }
  return candidates_;
}

size_t Sampler::Draw(double goal) {
  // A group is of tokens that are about as likely, so that the order of one of them decides.
  constexpr size_t kGroups = 512;
  constexpr double kOfE = 32;  // groups by which a weight falls by e
  std::array<double, kGroups> sums = {};
  groups_.resize(keys_.size());
  for (size_t i = 0; i < keys_.size(); ++i) {
    const double group = -exponents_[i] * kOfE;  // infinite for what cannot come
    groups_[i] = static_cast<uint16_t>(group < kGroups - 1.0 ? group : kGroups - 1.0);
    sums[groups_[i]] += weights_[i];
  }
  size_t drawn = 0;
  for (size_t g = 0; g < kGroups; ++g) {
    if (sums[g] == 0) continue;
    drawn = g;
    if (goal < sums[g]) break;
    goal -= sums[g];
  }
  std::vector<size_t>& members = members_;
  members.clear();
  for (size_t i = 0; i < keys_.size(); ++i) {
    if (groups_[i] == drawn && weights_[i] > 0) members.push_back(i);
  }
  size_t sorted = 0, last = 0;
  for (size_t m = 0; m < members.size(); ++m) {
    SortMore(members, sorted, m + 1, [&](size_t a, size_t b) { return keys_[a] > keys_[b]; });
    last = members[m];
    goal -= weights_[last];
    if (goal < 0) break;
  }
  return last;
}

int32_t Sampler::Sample(std::span<const float> logits, uint64_t rng_stream, uint64_t position,
                        const TokenHistory& text) {
  Cut(logits, text);
  chance_ = 1;
  if (keys_.size() == 1) return IdOf(keys_.front());
  const CounterRng rng(options_.seed, RngStream(RngPurpose::kSampling, rng_stream));
  const size_t drawn = Draw(rng.Uniform(position) * total_);
  chance_ = weights_[drawn] / total_;
  return IdOf(keys_[drawn]);
}

}  // namespace folio
