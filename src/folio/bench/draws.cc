#include "folio/bench/draws.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "folio/base/check.h"

namespace folio {

void Draws::Refill() {
  words_ = Philox({static_cast<uint32_t>(block_), static_cast<uint32_t>(block_ >> 32),
                   static_cast<uint32_t>(stream_), static_cast<uint32_t>(stream_ >> 32)},
                  {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
  ++block_;
  at_ = 0;
}

ZipfRanks::ZipfRanks(double shift, double head, uint32_t bend, double tail)
    : bend_(bend), tail_power_(-1 / (tail - 1)) {
  FOLIO_CHECK(bend >= 1 && tail > 1, "not a law of frequencies");
  std::vector<double> mass(bend + 1);
  for (uint32_t rank = 0; rank < bend; ++rank) mass[rank] = std::pow(rank + 1 + shift, -head);
  mass[bend] = bend_ * mass[bend - 1] / (tail - 1);  // the integral of the tail
  const double scale =
      static_cast<double>(mass.size()) / std::accumulate(mass.begin(), mass.end(), 0.0);
  std::vector<uint32_t> small, large;
  for (uint32_t i = 0; i <= bend; ++i) {
    mass[i] *= scale;
    (mass[i] < 1 ? small : large).push_back(i);
  }
  slots_.resize(mass.size());
  for (uint32_t i = 0; i <= bend; ++i) slots_[i] = {.threshold = UINT32_MAX, .other = i};
  while (!small.empty() && !large.empty()) {
    const uint32_t less = small.back(), more = large.back();
    small.pop_back();
    slots_[less] = {.threshold = static_cast<uint32_t>(mass[less] * 0x1p32), .other = more};
    mass[more] -= 1 - mass[less];
    if (mass[more] < 1) {
      large.pop_back();
      small.push_back(more);
    }
  }
}

uint64_t ZipfRanks::Draw(Draws& draws) const {
  const uint32_t slot = draws.Below(static_cast<uint32_t>(slots_.size()));
  const uint32_t rank = draws.Bits() < slots_[slot].threshold ? slot : slots_[slot].other;
  if (rank + 1 < slots_.size()) return rank;
  const double beyond = std::pow((draws.Bits() + 1.0) * 0x1p-32, tail_power_);
  return static_cast<uint64_t>(std::min(bend_ * beyond, 0x1p40));
}

uint64_t DocumentRanks::Next(Draws& draws) {
  const uint64_t rank = ranks_.Draw(draws);
  if (rank < rare_) return rank;
  const uint32_t known = std::min(seen_, static_cast<uint32_t>(recent_.size()));
  if (known > 0 && draws.Chance(40)) return recent_[draws.Below(known)];
  return recent_[seen_++ % recent_.size()] = rank;
}

}  // namespace folio
