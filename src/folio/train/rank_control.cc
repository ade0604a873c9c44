#include "folio/train/rank_control.h"

#include <fmt/format.h>

#include <cstdint>

#include "folio/base/error.h"
#include "folio/base/hash.h"
#include "folio/base/log.h"
#include "folio/base/math.h"

namespace folio {

std::vector<int> Stragglers::Add(const std::vector<double>& seconds) {
  slow_.resize(seconds.size());
  const double median = Median(seconds);
  std::vector<int> found;
  for (size_t rank = 0; rank < seconds.size(); ++rank) {
    slow_[rank] = seconds[rank] > kSlow * median ? slow_[rank] + 1 : 0;
    if (slow_[rank] == kSteps) found.push_back(static_cast<int>(rank));
  }
  return found;
}

RankFlags RankControl::Poll(const RankFlags& mine) const {
  if (group_ == nullptr) return mine;
  std::vector<uint8_t> bytes;
  for (const auto flag : RankFlags::kAll) bytes.push_back(mine.*flag);
  RankFlags any;
  for (const std::vector<uint8_t>& rank : GatherNumbers(*group_, bytes)) {
    for (size_t i = 0; i < rank.size(); ++i) {
      any.*RankFlags::kAll[i] = any.*RankFlags::kAll[i] || rank[i] != 0;
    }
  }
  return any;
}

std::vector<double> RankControl::GatherSeconds(double seconds) {
  std::vector<double> all;
  for (const std::vector<double>& rank : GatherNumbers(*group_, std::vector<double>{seconds})) {
    all.push_back(rank[0]);
  }
  if (!first()) return all;
  for (const int slow : stragglers_.Add(all)) {
    LogWarning(
        fmt::format("{} is slow: {:.3f} s of computing a step, where the median of all is "
                    "{:.3f}; the others wait for it",
                    group_->NameOf(slow), all[static_cast<size_t>(slow)], Median(all)));
  }
  return all;
}

void RankControl::RequireSameBytes(const Tensor& weights, int parts, int64_t step,
                                   const std::string& checkpoint) const {
  if (group_ == nullptr) return;
  const auto all =
      group_->GatherEqual(HashHex({reinterpret_cast<const char*>(weights.raw()), weights.bytes()}));
  for (int rank = 1; rank < group_->size(); ++rank) {
    const int with = rank % parts;  // the first with that part
    if (all[static_cast<size_t>(rank)] == all[static_cast<size_t>(with)]) continue;
    throw RuntimeError(fmt::format("{} has other weights than {} at step {}", group_->NameOf(rank),
                                   with == 0 ? "the first rank" : group_->NameOf(with), step),
                       checkpoint,
                       "they should be the same to the last bit: look at the memory and processor "
                       "of that machine, "
                       "then go on with --resume");
  }
}

}  // namespace folio
