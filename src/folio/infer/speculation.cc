#include "folio/infer/speculation.h"

#include <fmt/format.h>

#include <algorithm>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/infer/token_probabilities.h"

namespace folio {
namespace {

// Tokens at the end of the text that was read by which another text is recognised as its
// continuation.
constexpr size_t kTold = 32;

void RequireOneVocabulary(int64_t draft, int64_t model) {
  if (draft == model) return;
  throw UsageError(fmt::format("the draft's vocabulary has {} tokens, the model's {}",
                               WithCommas(draft), WithCommas(model)),
                   "both must have the same tokens",
                   "use a draft model with the tokenizer of the model");
}

constexpr double kKept = 23.0 / 24;      // factor of the counts of tokens after each pass
constexpr double kExpected = 0.5;        // tokens counted as accepted, and as rejected, at first
constexpr int64_t kFirst = 2;            // most proposals while no pass with more is known
constexpr int64_t kCompareAfter = 64;    // passes with proposals until one without
constexpr int64_t kForgetAfter = 256;    // passes after which a measurement is too old
constexpr int64_t kRest = 64;            // passes between tries
constexpr int64_t kTry = 2;              // passes of a try: the first may also read older tokens
constexpr int64_t kPromisingTry = 6;     // passes of a try in which all proposals are accepted
constexpr double kLeastSeconds = 1e-12;  // avoids a division by 0

}  // namespace

size_t NgramDraft::Hash::operator()(const Ngram& ngram) const {
  uint64_t hash = 0;
  for (const int32_t id : ngram) {
    hash = (hash ^ static_cast<uint32_t>(id)) * 0x9e3779b97f4a7c15;  // 2^64 / the golden ratio
    hash ^= hash >> 32;
  }
  return hash;
}

NgramDraft::Ngram NgramDraft::EndOf(std::span<const int32_t> text, size_t length) {
  Ngram ngram;
  ngram.fill(-1);
  std::ranges::copy(text.last(length), ngram.end() - static_cast<ptrdiff_t>(length));
  return ngram;
}

void NgramDraft::Read(std::span<const int32_t> text) {
  const size_t told = std::min(read_.size(), kTold);
  if (text.size() < read_.size() ||
      !std::ranges::equal(std::span(read_).last(told), text.first(read_.size()).last(told))) {
    read_.clear();
    follow_.clear();
  }
  while (read_.size() < text.size()) {
    read_.push_back(text[read_.size()]);
    for (size_t n = kShortest; n <= std::min(kLongest, read_.size()); ++n) {
      follow_[EndOf(read_, n)] = read_.size();
    }
  }
}

void NgramDraft::Propose(std::span<const int32_t> text, int64_t count, std::vector<int32_t>& ids) {
  ids.clear();
  if (count <= 0 || text.empty()) return;
  Read(text.first(text.size() - 1));  // not the end, which would find itself
  for (size_t n = std::min(kLongest, text.size()); n >= kShortest; --n) {
    const auto found = follow_.find(EndOf(text, n));
    if (found == follow_.end()) continue;
    const size_t next = found->second;
    if (!std::ranges::equal(text.first(next).last(n), text.last(n))) continue;  // of another text
    for (size_t i = next; std::ssize(ids) < count; ++i) {
      ids.push_back(i < text.size() ? text[i] : ids[i - text.size()]);
    }
    return;
  }
}

// A page more than the context has: one that was filled at once, and then cut, is copied.
ModelDraft::ModelDraft(Backend& backend, const GptWeights& weights, int64_t vocab_size)
    : decoder_(backend, weights,
               {.pages = KvCache::PagesOf(weights.config(), weights.config().n_positions) + 1,
                .sequences = 1}) {
  RequireOneVocabulary(weights.config().vocab_size, vocab_size);
}

int32_t ModelDraft::Next(std::span<const int32_t> ids) {
  read_.insert(read_.end(), ids.begin(), ids.end());
  const Tensor logits = decoder_.Append(sequence_, ids);
  return LikeliestToken({logits.host<float>(), static_cast<size_t>(logits.count())});
}

void ModelDraft::Propose(std::span<const int32_t> text, int64_t count, std::vector<int32_t>& ids) {
  ids.clear();
  if (count <= 0 || text.empty()) return;
  const auto P = static_cast<size_t>(decoder_.capacity()), half = std::max<size_t>(P / 2, 1);
  if (text.size() <= P) {
    begin_ = 0;
  } else if (text.size() > begin_ + P || text.size() < begin_ + half) {
    begin_ = text.size() - half;
  }
  const std::span<const int32_t> seen = text.subspan(begin_);
  const auto parted = std::ranges::mismatch(read_, seen).in1;
  read_.resize(std::min(static_cast<size_t>(parted - read_.begin()), seen.size() - 1));
  sequence_.Truncate(static_cast<int64_t>(read_.size()));
  read_.resize(static_cast<size_t>(sequence_.size()));
  const int64_t most = std::min(count, static_cast<int64_t>(P - seen.size()) + 1);
  ids.push_back(Next(seen.subspan(read_.size())));
  while (std::ssize(ids) < most) ids.push_back(Next(std::span<const int32_t>(ids).last(1)));
}

void Speculation::Seconds::Add(double seconds, int64_t pass) {
  values_[static_cast<size_t>(count_++) % values_.size()] = seconds;
  last_ = pass;
}

double Speculation::Seconds::least() const {
  const auto known = std::min<int64_t>(count_, std::ssize(values_));
  return known == 0 ? 0 : *std::min_element(values_.begin(), values_.begin() + known);
}

double Speculation::Accepted() const {
  return (accepted_ + kExpected) / (accepted_ + rejected_ + 2 * kExpected);
}

bool Speculation::Known(int64_t proposed) const {
  const Seconds& pass = pass_[static_cast<size_t>(proposed)];
  return pass.count() > 0 && (proposed == 0 || passes_ - pass.last() <= kForgetAfter);
}

double Speculation::PassSeconds(int64_t proposed) const {
  int64_t below = proposed, above = proposed;
  while (!Known(below)) --below;  // 0 is known
  while (above <= kMost && !Known(above)) ++above;
  const double least = pass_[static_cast<size_t>(below)].least();
  if (above == below || above > kMost) return least;
  const double share = static_cast<double>(proposed - below) / static_cast<double>(above - below);
  return least + share * (pass_[static_cast<size_t>(above)].least() - least);
}

int64_t Speculation::Best(int64_t least) const {
  const double a = Accepted();
  int64_t best = least;
  double most = 0, tokens = 0, power = 1;
  int64_t known = kMost;
  while (!Known(known)) --known;
  const int64_t end = std::clamp<int64_t>(2 * known, kFirst, kMost);
  for (int64_t k = 0; k <= end; ++k, power *= a) {
    tokens += power;
    const double seconds = PassSeconds(k) + static_cast<double>(k) * proposal_.least();
    const double rate = tokens / std::max(seconds, kLeastSeconds);
    if (k < least || rate <= most) continue;
    best = k;
    most = rate;
  }
  return best;
}

int64_t Speculation::Next() const {
  const Seconds& alone = pass_[0];
  if (alone.count() < 2 || passes_ - alone.last() > kCompareAfter) return 0;
  const int64_t best = Best(0);
  return best == 0 && rest_ == 0 ? Best(1) : best;
}

void Speculation::Record(int64_t proposed, int64_t accepted, double draft_seconds,
                         double pass_seconds) {
  FOLIO_CHECK(0 <= accepted && accepted <= proposed && proposed <= kMost,
              "more was accepted than proposed");
  ++passes_;
  pass_[static_cast<size_t>(proposed)].Add(pass_seconds, passes_);
  if (proposed == 0) {
    rest_ = std::max<int64_t>(rest_ - 1, 0);
    return;
  }
  proposal_.Add(draft_seconds / static_cast<double>(proposed), passes_);
  accepted_ = accepted_ * kKept + static_cast<double>(accepted);
  rejected_ = rejected_ * kKept + (accepted < proposed ? 1 : 0);
  if (++tried_ < (accepted == proposed ? kPromisingTry : kTry)) return;
  tried_ = 0;
  rest_ = kRest;
}

}  // namespace folio
