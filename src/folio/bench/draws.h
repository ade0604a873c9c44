#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "folio/base/rng.h"

namespace folio {

// The numbers of one stream of Philox, one after the other.
class Draws {
 public:
  Draws(uint64_t seed, uint64_t stream) : seed_(seed), stream_(stream) {}

  uint32_t Bits() {
    if (at_ == words_.size()) Refill();
    return words_[at_++];
  }
  // REQUIRES: n >= 1.
  uint32_t Below(uint32_t n) { return static_cast<uint32_t>(uint64_t{Bits()} * n >> 32); }
  // From low to high, both among them.
  int Between(int low, int high) {
    return low + static_cast<int>(Below(static_cast<uint32_t>(high - low + 1)));
  }
  // The sum of two such: the middle is more likely than the ends.
  int BetweenTwice(int low, int high) {
    const int first = Between(low, high);
    return first + Between(low, high);
  }
  bool Chance(double percent) { return Bits() < percent * (0x1p32 / 100); }
  std::string_view Pick(std::span<const std::string_view> from) {
    return from[Below(static_cast<uint32_t>(from.size()))];
  }
  // The same, those in front more often: the first of n with probability n^(-1/3).
  std::string_view PickFront(std::span<const std::string_view> from) {
    const double u = Bits() * 0x1p-32;
    return from[static_cast<size_t>(u * u * u * static_cast<double>(from.size()))];
  }

 private:
  void Refill();

  uint64_t seed_;
  uint64_t stream_;
  uint64_t block_ = 0;
  std::array<uint32_t, 4> words_ = {};
  size_t at_ = 4;
};

// Ranks of words, 0 for the most frequent, without end: the law of Zipf and Mandelbrot up to
// `bend`, probability ~ (rank + 1 + shift)^-head; a power law with the steeper exponent `tail`
// beyond it, from which the vocabulary grows with the length of a text as Heaps' law says (two
// regimes: Gerlach and Altmann 2013, who find a bend at 7,900 and a tail of 1.77 in English books).
class ZipfRanks {
 public:
  // REQUIRES: bend >= 1, tail > 1.
  ZipfRanks(double shift, double head, uint32_t bend, double tail);
  uint64_t Draw(Draws& draws) const;

 private:
  // Walker's alias table over the ranks below the bend and, the last one, all others.
  struct Slot {
    uint32_t threshold;
    uint32_t other;
  };
  std::vector<Slot> slots_;
  double bend_;
  double tail_power_;
};

// The ranks of one document: a rare word that has come once is likely to come again in it.
class DocumentRanks {
 public:
  DocumentRanks(const ZipfRanks& ranks, uint32_t rare) : ranks_(ranks), rare_(rare) {}
  uint64_t Next(Draws& draws);

 private:
  const ZipfRanks& ranks_;
  uint32_t rare_;
  std::array<uint64_t, 32> recent_ = {};
  uint32_t seen_ = 0;
};

}  // namespace folio
