#include "folio/tensor/quantise.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include "folio/tensor/half.h"

namespace folio {
namespace {

constexpr size_t kShort = 32, kScaleBytes = 2;

void StoreHalf(float value, std::byte* at) {
  const uint16_t bits = FloatToHalf(value);
  std::memcpy(at, &bits, sizeof bits);
}

// Numbers are multiplied with InverseOf(scale) before they are rounded: 0 where they all vanish.
float InverseOf(float scale) {
  const float inverse = 1.0f / scale;
  return std::isfinite(inverse) ? inverse : 0.0f;
}

// Writes the scale; false if the block cannot be quantised, with NaN for it.
bool StoreScale(const float* numbers, float scale, std::byte* out) {
  const bool fits =
      std::ranges::all_of(std::span(numbers, kShort), [](float x) { return std::isfinite(x); }) &&
      std::isfinite(HalfToFloat(FloatToHalf(scale)));
  StoreHalf(fits ? scale : std::numeric_limits<float>::quiet_NaN(), out);
  return fits;
}

}  // namespace

bool EncodeQ80(const float* numbers, std::byte* block) {
  float largest = 0;
  for (size_t i = 0; i < kShort; ++i) largest = std::max(largest, std::abs(numbers[i]));
  const float scale = largest / 127;
  const float inverse = InverseOf(scale);
  if (!StoreScale(numbers, scale, block)) {
    std::fill_n(block + kScaleBytes, kShort, std::byte{0});
    return false;
  }
  for (size_t i = 0; i < kShort; ++i) {
    block[kScaleBytes + i] =
        static_cast<std::byte>(static_cast<int8_t>(std::round(numbers[i] * inverse)));
  }
  return true;
}

bool EncodeQ40(const float* numbers, std::byte* block) {
  float largest = 0;
  for (size_t i = 0; i < kShort; ++i) {
    if (std::abs(numbers[i]) > std::abs(largest)) largest = numbers[i];
  }
  const float scale = largest / -8;
  const float inverse = InverseOf(scale);
  if (!StoreScale(numbers, scale, block)) {
    std::fill_n(block + kScaleBytes, kShort / 2, std::byte{0});
    return false;
  }
  const auto quantised = [&](float x) {
    return std::min(15u, static_cast<unsigned>(x * inverse + 8.5f));
  };
  for (size_t i = 0; i < kShort / 2; ++i) {
    block[kScaleBytes + i] =
        static_cast<std::byte>(quantised(numbers[i]) | quantised(numbers[i + kShort / 2]) << 4);
  }
  return true;
}

}  // namespace folio
