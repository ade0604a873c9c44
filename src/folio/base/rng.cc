#include "folio/base/rng.h"

#include <cmath>
#include <numbers>

#include "folio/base/check.h"

namespace folio {
namespace {

uint32_t Low(uint64_t x) {
  return static_cast<uint32_t>(x);
}
uint32_t High(uint64_t x) {
  return static_cast<uint32_t>(x >> 32);
}

std::array<uint32_t, 4> Block(uint64_t seed, uint64_t stream, uint64_t block) {
  return Philox({Low(block), High(block), Low(stream), High(stream)}, {Low(seed), High(seed)});
}

}  // namespace

std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {High(b) ^ counter[1] ^ key[0], Low(b), High(a) ^ counter[3] ^ key[1], Low(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

uint32_t CounterRng::Bits(uint64_t index) const {
  return Block(seed_, stream_, index / 64 * 16 + index % 16)[index / 16 % 4];
}

double CounterRng::Uniform(uint64_t index) const {
  return Bits(index) * 0x1p-32;
}

double CounterRng::Normal(uint64_t index) const {
  const std::array<uint32_t, 4> words = Block(seed_, stream_, index);
  const double radius = std::sqrt(-2.0 * std::log((words[0] + 1.0) * 0x1p-32));
  return radius * std::cos(2.0 * std::numbers::pi * (words[1] * 0x1p-32));
}

uint64_t CounterRng::Below(uint64_t index, uint64_t n) const {
  FOLIO_CHECK(n >= 1, "nothing lies in [0, 0)");
  const std::array<uint32_t, 4> words = Block(seed_, stream_, index);
  // The high 64 bits of (a random 64-bit number) * n, from 32-bit halves.
  const uint64_t low = uint64_t{words[1]} * Low(n);
  const uint64_t mid = uint64_t{words[0]} * Low(n) + High(low);
  const uint64_t mid2 = uint64_t{words[1]} * High(n) + Low(mid);
  return uint64_t{words[0]} * High(n) + High(mid) + High(mid2);
}

uint64_t RngStream(RngPurpose purpose, uint64_t a, uint64_t b) {
  FOLIO_CHECK(a < (uint64_t{1} << 40) && b < (uint64_t{1} << 16), "stream number out of range");
  return static_cast<uint64_t>(purpose) << 56 | a << 16 | b;
}

}  // namespace folio
