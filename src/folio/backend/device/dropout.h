#pragma once

// Dropout (ops.h) by CounterRng's numbers (base/rng.h).

#include "folio/backend/device/numbers.h"

namespace folio::device {

// CounterRng(seed, stream).Bits(index).
FOLIO_DEVICE uint32_t CounterBits(uint64_t seed, uint64_t stream, uint64_t index) {
  const uint64_t block = index / 64 * 16 + index % 16;
  uint32_t counter[4] = {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                         static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)};
  uint32_t key[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    const uint32_t first = static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0];
    const uint32_t third = static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1];
    counter[0] = first;
    counter[1] = static_cast<uint32_t>(b);
    counter[2] = third;
    counter[3] = static_cast<uint32_t>(a);
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  const uint32_t even = (index / 32 % 2 != 0) ? counter[2] : counter[0];
  const uint32_t odd = (index / 32 % 2 != 0) ? counter[3] : counter[1];
  return index / 16 % 2 != 0 ? odd : even;  // no array of a GPU's registers has a variable index
}

// Zeroes elements of an array, and multiplies the others by `factor`.
struct DropoutArgs {
  bool active;
  uint32_t threshold;
  float factor;
  uint64_t seed, stream;
  int64_t first, stride;  // the number of element (row, column) is first + row * stride + column

  FOLIO_DEVICE float operator()(float x, int64_t row, int64_t column) const {
    const auto index = static_cast<uint64_t>(first + row * stride + column);
    return active && CounterBits(seed, stream, index) < threshold ? 0.0f * x : x * factor;
  }
};

}  // namespace folio::device
