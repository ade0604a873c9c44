#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "folio/base/rng.h"
#include "folio/tensor/convert.h"

namespace folio {
namespace {

// One byte off, so that any store which assumes alignment is caught by the sanitizer.
std::vector<uint8_t> Encoded(const std::vector<float>& from, Dtype to,
                             std::optional<size_t> bad = std::nullopt) {
  const size_t bytes = DtypeBytes(to, std::ssize(from));
  std::vector<std::byte> memory(bytes + 2, std::byte{0xA5});
  EXPECT_EQ(EncodeFloats(from, to, memory.data() + 1), bad);
  EXPECT_EQ(memory.front(), std::byte{0xA5});
  EXPECT_EQ(memory.back(), std::byte{0xA5}) << "written beyond the end";
  std::vector<uint8_t> out;
  for (size_t i = 0; i < bytes; ++i) out.push_back(std::to_integer<uint8_t>(memory[1 + i]));
  return out;
}

std::vector<float> Decoded(const std::vector<uint8_t>& bytes, Dtype from, size_t count) {
  std::vector<float> out(count);
  DecodeFloats(std::as_bytes(std::span(bytes)).data(), from, std::span(out));
  return out;
}

std::string Hex(const std::vector<uint8_t>& bytes) {
  std::string hex;
  for (const uint8_t byte : bytes) {
    for (const int half : {byte >> 4, byte & 15}) hex += "0123456789abcdef"[half];
  }
  return hex;
}

TEST(Encode, EveryF16ComesBackAsItself) {
  std::vector<uint8_t> all;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    all.push_back(static_cast<uint8_t>(bits & 255u));
    all.push_back(static_cast<uint8_t>(bits >> 8));
  }
  const std::vector<float> values = Decoded(all, Dtype::kF16, 65536);
  const std::vector<uint8_t> again = Encoded(values, Dtype::kF16);
  for (size_t i = 0; i < 65536; ++i) {
    if (std::isnan(values[i])) {
      ASSERT_TRUE(std::isnan(Decoded({again[2 * i], again[2 * i + 1]}, Dtype::kF16, 1)[0])) << i;
    } else {
      ASSERT_EQ(again[2 * i] | again[2 * i + 1] << 8, static_cast<int>(i));
    }
  }
}

// Between each two neighbours: below the middle, the middle, above it.
TEST(Encode, HalvesRoundToTheNearestAndOfTwoToTheEven) {
  const auto check = [](Dtype dtype, uint16_t infinity) {
    for (uint16_t low = 0; low < infinity - 1; low = static_cast<uint16_t>(low + 13)) {
      const auto high = static_cast<uint16_t>(low + 1);
      const auto value = [&](uint16_t bits) {
        const std::vector<uint8_t> bytes = {static_cast<uint8_t>(bits & 255),
                                            static_cast<uint8_t>(bits >> 8)};
        return Decoded(bytes, dtype, 1)[0];
      };
      const auto middle = static_cast<float>((static_cast<double>(value(low)) + value(high)) / 2);
      const uint16_t even = low % 2 == 0 ? low : high;
      for (const float sign : {1.0f, -1.0f}) {
        const std::vector<uint8_t> out =
            Encoded({sign * std::nextafter(middle, 0.0f), sign * middle,
                     sign * std::nextafter(middle, INFINITY)},
                    dtype);
        const int bit = sign < 0 ? 0x8000 : 0;
        ASSERT_EQ(out[0] | out[1] << 8, low | bit) << low;
        ASSERT_EQ(out[2] | out[3] << 8, even | bit) << low;
        ASSERT_EQ(out[4] | out[5] << 8, high | bit) << low;
      }
    }
  };
  check(Dtype::kF16, 0x7c00);
  check(Dtype::kBF16, 0x7f80);
}

TEST(Encode, WhatIsTooLargeIsFound) {
  EXPECT_EQ(Hex(Encoded({65519.0f, -65519.0f}, Dtype::kF16)), "ff7bfffb");
  EXPECT_EQ(Hex(Encoded({1, 65520.0f, -70000.0f}, Dtype::kF16, 1)), "003c007c00fc");
  EXPECT_EQ(Hex(Encoded({INFINITY, -INFINITY}, Dtype::kF16)), "007c00fc");
  EXPECT_EQ(Hex(Encoded({1, std::numeric_limits<float>::max()}, Dtype::kBF16, 1)), "803f807f");
  EXPECT_TRUE(std::isnan(Decoded(Encoded({NAN}, Dtype::kBF16), Dtype::kBF16, 1)[0]));
  EXPECT_EQ(Hex(Encoded({NAN}, Dtype::kF32)), "0000c07f");
}

// Bytes that the Python package gguf 0.19 makes of these numbers (quants.quantize).
TEST(Encode, BlocksAreThoseOfGgml) {
  const std::vector<float> block = {0x1.4e605ap-2f,  0.0f,
                                    0x1.15640ap-5f,  0x1.fbc73ep-3f,
                                    -0x1.0be23p+0f,  0x1.82f3e6p-2f,
                                    -0x1.6b9718p-2f, -0x1.3c1a74p-1f,
                                    -0x1.15640ap-5f, 0x1.096c26p-2f,
                                    -0x1.5106e8p-3f, -0x1.97d422p-2f,
                                    0x1.3cbddep-7f,  -0x1.3fc226p-6f,
                                    0x1.0a46cap-1f,  0x1.1b2d8ep-2f,
                                    0x1.25bb42p-4f,  0x1.a52cf4p-2f,
                                    -0x1.37796cp-4f, -0x1.5ece0ap-2f,
                                    0x1.ba9376p-3f,  0x1.b96ca0p-3f,
                                    -0x1.4593d8p-4f, -0x1.28972cp-2f,
                                    0x1.5b498ep-4f,  -0x1.d8717ep-1f,
                                    0x1.057978p-2f,  0x1.7456d6p-3f,
                                    -0x1.367710p-1f, 0x1.73ee0cp-6f,
                                    -0x1.6d4730p-2f, 0x1.1ee55ap-2f};
  EXPECT_EQ(Hex(Encoded(block, Dtype::kQ8_0)),
            "382028"
            "00041e812ed5b5fc1fecd001fe3f220932f7d61a1af6dd0a901f16b603d522");
  EXPECT_EQ(Hex(Encoded(block, Dtype::kQ4_0)), "30309ab8785aa0ab7563981aa79538885caa");
}

TEST(Encode, BlocksComeBackWithinHalfAStep) {
  const CounterRng rng(5, 0);
  std::vector<float> numbers(7 * 32);
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] =
        static_cast<float>(rng.Normal(i) * std::pow(10.0, static_cast<double>(i / 32) - 3));
  }
  for (const auto& [dtype, steps] :
       {std::pair{Dtype::kQ8_0, 127.0f}, std::pair{Dtype::kQ4_0, 8.0f}}) {
    const std::vector<float> out = Decoded(Encoded(numbers, dtype), dtype, numbers.size());
    for (size_t i = 0; i < numbers.size(); ++i) {
      float largest = 0;
      for (size_t j = i / 32 * 32; j < i / 32 * 32 + 32; ++j) {
        largest = std::max(largest, std::abs(numbers[j]));
      }
      // `bound` is half a step, a whole one at the end that Q4_0's 16 levels do not reach, and the
      // scale's own rounding.
      const float step = largest / steps;
      const float bound = (dtype == Dtype::kQ4_0 ? 1.0f : 0.5f) * step + largest * 0x1p-11f;
      EXPECT_LE(std::abs(out[i] - numbers[i]), bound) << DtypeName(dtype) << " " << i;
    }
  }
}

TEST(Encode, ABlockThatCannotBeScaledIsFoundAndOneOfZerosStaysZero) {
  for (const Dtype dtype : {Dtype::kQ8_0, Dtype::kQ4_0}) {
    for (const float tiny : {0.0f, 1e-40f, 1e-12f}) {
      const std::vector<float> out =
          Decoded(Encoded(std::vector<float>(32, tiny), dtype), dtype, 32);
      for (const float x : out) EXPECT_EQ(x, 0.0f);
    }
    for (const float bad : {NAN, INFINITY, -INFINITY, 1e8f}) {
      std::vector<float> numbers(96, 0.5f);
      numbers[70] = bad;
      const std::vector<float> out = Decoded(Encoded(numbers, dtype, 64), dtype, 96);
      EXPECT_NEAR(out[63], 0.5, 0.01);
      EXPECT_TRUE(std::isnan(out[70]));
    }
  }
}

}  // namespace
}  // namespace folio
