#pragma once

#include <bit>
#include <cstdint>

namespace folio {

// IEEE 754 binary16 numbers by their bits: 1 of sign, 5 of exponent (bias 15), 10 of fraction.

inline float HalfToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 31u;
  const uint32_t fraction = bits & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

// A binary16 number as it lies in a weight.
struct F16 {
  uint16_t bits = 0;
};

// The nearest binary16, ties to even.
inline uint16_t FloatToHalf(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  constexpr uint32_t kInfinity = 0x7f800000, kTooLarge = 0x477ff000;  // 65520
  constexpr uint32_t kNormal = 0x38800000;                            // 2^-14
  uint32_t half = 0;
  if (magnitude > kInfinity) {
    half = 0x7e00u | (magnitude >> 13 & 0x1ffu);
  } else if (magnitude >= kTooLarge) {
    half = 0x7c00;
  } else if (magnitude >= kNormal) {
    half = (magnitude + 0xfffu + (magnitude >> 13 & 1u) - (112u << 23)) >> 13;
  } else {
    // The sum is rounded to multiples of 2^-24, like subnormal binary16 numbers.
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    half = std::bit_cast<uint32_t>(sum) - std::bit_cast<uint32_t>(0.5f);
  }
  return static_cast<uint16_t>(sign | half);
}

}  // namespace folio
