#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "folio/text/bpe_vocab.h"

namespace folio {

// The table of the pairs of tokens that merge, and when. A pair, its rank and nothing else lie in
// eight bytes: the merging of rare words waits for these look-ups.
class PairTable {
 public:
  static constexpr uint32_t kNone = (uint32_t{1} << 22) - 1;  // no such merge; above every rank
  static constexpr int kIdBits = 21;
  static constexpr int kRankBits = 22;

  // REQUIRES: ids below 2^21, fewer than kNone merges, distinct pairs.
  explicit PairTable(std::span<const BpeMerge> merges) {
    size_t slots = 64;
    while (slots < merges.size() * 2) slots *= 2;
    mask_ = slots - 1;
    slots_.assign(slots, kEmpty);
    maybe_.assign(slots / 16, 0);
    for (size_t rank = 0; rank < merges.size(); ++rank) {
      const uint64_t pair = Pair(merges[rank].left, merges[rank].right);
      size_t slot = Home(Mix(pair));
      while (slots_[slot] != kEmpty) slot = (slot + 1) & mask_;
      slots_[slot] = pair << kRankBits | rank;
      const uint64_t mixed = Mix(pair);
      maybe_[MaybeWord(mixed)] |= MaybeBit(mixed);
    }
  }

  // The rank of the merge of two neighbours, or kNone.
  uint32_t Rank(int32_t left, int32_t right) const {
    const uint64_t pair = Pair(left, right);
    const uint64_t mixed = Mix(pair);
    if ((maybe_[MaybeWord(mixed)] & MaybeBit(mixed)) == 0) return kNone;
    for (size_t slot = Home(mixed);; slot = (slot + 1) & mask_) {
      const uint64_t entry = slots_[slot];
      if (entry >> kRankBits == pair) return static_cast<uint32_t>(entry) & kNone;
      if (entry == kEmpty) return kNone;
    }
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};

  static uint64_t Pair(int32_t left, int32_t right) {
    return static_cast<uint64_t>(left) << kIdBits | static_cast<uint64_t>(right);
  }
  static uint64_t Mix(uint64_t pair) {
    const uint64_t mixed = pair * 0x9E3779B97F4A7C15;
    return mixed ^ mixed >> 32;
  }
  size_t Home(uint64_t mixed) const { return static_cast<size_t>(mixed) & mask_; }
  // Four bits for a slot.
  size_t MaybeWord(uint64_t mixed) const { return static_cast<size_t>(mixed >> 6) & mask_ >> 4; }
  static uint64_t MaybeBit(uint64_t mixed) { return uint64_t{1} << (mixed & 63); }

  std::vector<uint64_t> slots_;
  // Most pairs do not merge: a bit for each value of a hash, set where some pair that does has it.
  // Small enough to stay near.
  std::vector<uint64_t> maybe_;
  size_t mask_ = 0;
};

}  // namespace folio
