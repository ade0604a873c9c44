#include "folio/infer/speculation.h"

#include <algorithm>

#include "folio/base/check.h"

namespace folio {
namespace {

constexpr double kKept = 23.0 / 24;      // of what was counted, after each pass
constexpr double kExpected = 0.5;        // tokens accepted and rejected before the first
constexpr int64_t kFirst = 2;            // proposals, where no passes with more are known
constexpr int64_t kCompareAfter = 64;    // passes with proposals, until one has none
constexpr int64_t kForgetAfter = 256;    // passes after which a time counts no more
constexpr int64_t kRest = 64;            // passes between tries
constexpr int64_t kTry = 2;              // passes of a try: the first may have to catch up
constexpr int64_t kPromisingTry = 6;     // where all is accepted
constexpr double kLeastSeconds = 1e-12;  // for a clock that stood still

}  // namespace

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
