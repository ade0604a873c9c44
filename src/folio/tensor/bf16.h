#pragma once

#include <cstdint>
#include <cstring>

namespace folio {

// A bfloat16 number: the upper half of a float32, so 8 bits of precision and float32's range.
struct BF16 {
  uint16_t bits = 0;

  bool operator==(const BF16&) const = default;
};

inline float ToFloat(BF16 x) {
  const uint32_t bits = uint32_t{x.bits} << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// The nearest bfloat16, of two that are equally near the even one; a NaN stays a NaN.
inline BF16 ToBF16(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  if (value != value) return {static_cast<uint16_t>(bits >> 16 | 0x40)};
  return {static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)};
}

}  // namespace folio
