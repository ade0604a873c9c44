#include "folio/tensor/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "folio/base/rng.h"

namespace folio {
namespace {

constexpr uint32_t kPatterns = 1 << 16;
constexpr uint32_t kInfinityBits = 0x7F80;

float FromBits(uint32_t bits) {
  return std::bit_cast<float>(bits);
}

BF16 Pattern(uint32_t bits) {
  return {static_cast<uint16_t>(bits)};
}

// The value of a pattern that is no NaN, computed from sign, exponent and fraction; for infinity
// the value that would continue the numbers, to which rounding compares.
double Value(uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 7 & 0xFF), fraction = static_cast<int>(bits & 0x7F);
  const double size = exponent == 0 ? std::ldexp(fraction, -126 - 7)
                                    : std::ldexp(128 + fraction, exponent - 127 - 7);
  return bits >> 15 ? -size : size;
}

TEST(BF16, AllPatternsWidenToTheirValueAndComeBack) {
  for (uint32_t bits = 0; bits < kPatterns; ++bits) {
    const float x = ToFloat(Pattern(bits));
    ASSERT_EQ(std::bit_cast<uint32_t>(x), bits << 16);
    if ((bits & 0x7FFF) > kInfinityBits) {
      ASSERT_TRUE(std::isnan(x)) << bits;
      ASSERT_EQ(ToBF16(x).bits, bits | 0x40) << "a quiet NaN with the payload that fits";
      continue;
    }
    const bool finite = (bits & 0x7FFF) < kInfinityBits;
    ASSERT_TRUE(finite ? static_cast<double>(x) == Value(bits) : std::isinf(x)) << bits;
    ASSERT_EQ(ToBF16(x).bits, bits);
  }
}

// Between each number and the next away from zero, subnormal, normal and largest ones: the nearer
// is chosen, and in the middle the even one.
TEST(BF16, RoundsToTheNearestAndOfTwoToTheEvenOne) {
  for (uint32_t bits = 0; bits < kPatterns; ++bits) {
    if ((bits & 0x7FFF) >= kInfinityBits) continue;
    for (const uint32_t rest : {0x0001U, 0x4321U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU}) {
      const float x = FromBits(bits << 16 | rest);
      const double down = std::abs(static_cast<double>(x) - Value(bits));
      const double up = std::abs(Value(bits + 1) - static_cast<double>(x));
      const bool next = down > up || (down == up && bits % 2 == 1);
      ASSERT_EQ(ToBF16(x).bits, next ? bits + 1 : bits) << std::hex << bits << " " << rest;
    }
  }
}

TEST(BF16, KnownValues) {
  EXPECT_EQ(ToBF16(1.0F).bits, 0x3F80);
  EXPECT_EQ(ToBF16(-2.5F).bits, 0xC020);
  EXPECT_EQ(ToBF16(-0.0F).bits, 0x8000);
  EXPECT_EQ(ToFloat(ToBF16(3.14159265F)), 3.140625F);
  EXPECT_EQ(ToFloat(ToBF16(1 + 0x1p-8F)), 1.0F) << "a tie, down to even";
  EXPECT_EQ(ToFloat(ToBF16(1 + 0x3p-8F)), 1 + 0x1p-6F) << "a tie, up to even";
  EXPECT_EQ(ToFloat(ToBF16(2 - 0x1p-8F)), 2.0F) << "into the next binade";
}

// Payloads in the lower half alone would round to infinity, full ones to zero.
TEST(BF16, KeepsEveryNaN) {
  for (const uint32_t sign : {0U, 0x8000'0000U}) {
    for (uint32_t bit = 0; bit < 23; ++bit) {
      for (const uint32_t payload : {1U << bit, (2U << bit) - 1, 0x7F'FFFFU >> bit}) {
        const BF16 x = ToBF16(FromBits(sign | 0x7F80'0000 | payload));
        EXPECT_TRUE(std::isnan(ToFloat(x))) << std::hex << payload;
        EXPECT_EQ(x.bits >> 15, sign >> 31) << std::hex << payload;
      }
    }
  }
}

template <class In, class Out>
std::vector<Out> Decoded(const std::vector<In>& values, Dtype from) {
  // One byte off, so that the sanitizer catches any load which assumes alignment.
  std::vector<std::byte> memory(1);
  for (const std::byte byte : std::as_bytes(std::span(values))) memory.push_back(byte);
  std::vector<Out> out(values.size());
  if constexpr (std::is_floating_point_v<Out>) {
    DecodeFloats(memory.data() + 1, from, out);
  } else {
    EXPECT_EQ(DecodeIntegers(memory.data() + 1, from, out), std::nullopt);
  }
  return out;
}

// The value of a binary16 number by its definition.
double HalfValue(uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31u);
  const double fraction = bits & 1023u;
  const double sign = bits & 0x8000u ? -1.0 : 1.0;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(Convert, EveryF16) {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  const auto floats = Decoded<uint16_t, float>(all, Dtype::kF16);
  const auto doubles = Decoded<uint16_t, double>(all, Dtype::kF16);
  for (uint32_t i = 0; i < all.size(); ++i) {
    const double expected = HalfValue(i);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(floats[i]) && std::isnan(doubles[i])) << i;
    } else {
      ASSERT_EQ(floats[i], expected) << i;
      ASSERT_EQ(doubles[i], expected) << i;
    }
    ASSERT_EQ(std::signbit(floats[i]), (i & 0x8000u) != 0) << i;
  }
}

TEST(Convert, Bf16IsTheUpperHalfOfF32) {
  const auto out =
      Decoded<uint16_t, float>({0x3f80, 0xc049, 0x7f80, 0x8000, 0x0001, 0x7fc1}, Dtype::kBF16);
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[1], -3.140625f);
  EXPECT_EQ(out[2], std::numeric_limits<float>::infinity());
  EXPECT_TRUE(out[3] == 0.0f && std::signbit(out[3]));
  EXPECT_EQ(std::bit_cast<uint32_t>(out[4]), 0x00010000u);
  EXPECT_EQ(std::bit_cast<uint32_t>(out[5]), 0x7fc10000u);
}

TEST(Convert, F32KeepsNanPayloadsAndF64Rounds) {
  const auto bits = Decoded<uint32_t, float>({0x7fc00123u, 0xff812345u}, Dtype::kF32);
  EXPECT_EQ(std::bit_cast<uint32_t>(bits[0]), 0x7fc00123u);
  EXPECT_EQ(std::bit_cast<uint32_t>(bits[1]), 0xff812345u);
  const auto rounded =
      Decoded<double, float>({1.0 + 0x1p-24, 1.0 + 0x1.8p-24, 1e300, -0.0}, Dtype::kF64);
  EXPECT_EQ(rounded[0], 1.0f);
  EXPECT_EQ(rounded[1], 1.0f + 0x1p-23f);
  EXPECT_TRUE(std::isinf(rounded[2]));
  EXPECT_TRUE(std::signbit(rounded[3]));
  EXPECT_EQ((Decoded<double, double>({0.1, 1e300}, Dtype::kF64)),
            (std::vector<double>{0.1, 1e300}));
  EXPECT_EQ((Decoded<float, double>({0.1f}, Dtype::kF32))[0], static_cast<double>(0.1f));
}

TEST(Convert, IntegersOfEveryDtype) {
  using V = std::vector<int64_t>;
  EXPECT_EQ((Decoded<int64_t, int64_t>({INT64_MIN, INT64_MAX}, Dtype::kI64)),
            (V{INT64_MIN, INT64_MAX}));
  EXPECT_EQ((Decoded<int32_t, int64_t>({INT32_MIN, -1}, Dtype::kI32)), (V{INT32_MIN, -1}));
  EXPECT_EQ((Decoded<uint32_t, int64_t>({0, UINT32_MAX}, Dtype::kU32)), (V{0, UINT32_MAX}));
  EXPECT_EQ((Decoded<int16_t, int64_t>({INT16_MIN, -1}, Dtype::kI16)), (V{INT16_MIN, -1}));
  EXPECT_EQ((Decoded<uint16_t, int64_t>({65535, 1}, Dtype::kU16)), (V{65535, 1}));
  EXPECT_EQ((Decoded<int8_t, int64_t>({-128, 127}, Dtype::kI8)), (V{-128, 127}));
  EXPECT_EQ((Decoded<uint8_t, int64_t>({255, 0}, Dtype::kU8)), (V{255, 0}));
  EXPECT_EQ((Decoded<uint8_t, int64_t>({0, 1, 2}, Dtype::kBool)), (V{0, 1, 1}));
  EXPECT_EQ((Decoded<int64_t, int32_t>({INT32_MIN, INT32_MAX}, Dtype::kI64)),
            (std::vector<int32_t>{INT32_MIN, INT32_MAX}));
}

TEST(Convert, NumbersThatDoNotFitAreFound) {
  const std::vector<int64_t> wide = {0, INT32_MAX, int64_t{INT32_MAX} + 1};
  const std::vector<int64_t> low = {int64_t{INT32_MIN} - 1};
  const std::vector<uint32_t> high = {1, 0x80000000u};
  std::vector<int32_t> out(3);
  const auto bytes = [](const auto& values) {
    return reinterpret_cast<const std::byte*>(values.data());
  };
  EXPECT_EQ(DecodeIntegers(bytes(wide), Dtype::kI64, std::span(out)), 2u);
  EXPECT_EQ(DecodeIntegers(bytes(low), Dtype::kI64, std::span(out).first(1)), 0u);
  EXPECT_EQ(DecodeIntegers(bytes(high), Dtype::kU32, std::span(out).first(2)), 1u);
}

uint16_t Half(float x) {
  uint16_t bits = 0;
  EncodeFloats({&x, 1}, Dtype::kF16, reinterpret_cast<std::byte*>(&bits));
  return bits;
}

// Every binary16 number comes back; numbers between two go to the nearer, in the middle to the even
// one.
TEST(Convert, EncodesTheNearestF16) {
  for (uint32_t i = 0; i < 0x7c00; ++i) {
    const double here = HalfValue(i);
    ASSERT_EQ(Half(static_cast<float>(here)), i);
    ASSERT_EQ(Half(-static_cast<float>(here)), i | 0x8000u);
    // Beyond the largest number the next one would be 2^16.
    const double next = i == 0x7bff ? 65536 : HalfValue(i + 1);
    const auto middle = static_cast<float>((here + next) / 2);
    ASSERT_EQ(Half(middle), i % 2 == 0 ? i : i + 1) << i;
    ASSERT_EQ(Half(std::nextafter(middle, 0.0f)), i) << i;
    ASSERT_EQ(Half(std::nextafter(middle, 1e9f)), i + 1) << i;
  }
  EXPECT_EQ(Half(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(Half(-1e30f), 0xfc00);
  EXPECT_EQ(Half(1e-30f), 0);
  EXPECT_TRUE(std::isnan(HalfValue(Half(std::numeric_limits<float>::quiet_NaN()))));
}

// One byte off, so that the sanitizer catches any store which assumes alignment.
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

// Bytes that the Python package gguf 0.19 produces for these numbers (quants.quantize).
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
  for (const Dtype dtype : {Dtype::kQ8_0, Dtype::kQ4_0, Dtype::kQ4_1, Dtype::kQ5_0, Dtype::kQ5_1,
                            Dtype::kQ4_K, Dtype::kQ5_K, Dtype::kQ6_K}) {
    const size_t block = DtypeBlock(dtype);
    for (const float tiny : {0.0f, 1e-40f, 1e-12f}) {
      const std::vector<float> out =
          Decoded(Encoded(std::vector<float>(block, tiny), dtype), dtype, block);
      for (const float x : out) EXPECT_EQ(x, 0.0f);
    }
    for (const float bad : {NAN, INFINITY, -INFINITY, 1e9f, -1e9f}) {
      std::vector<float> numbers(3 * block, 0.5f);
      numbers[2 * block + 6] = bad;
      const std::vector<float> out = Decoded(Encoded(numbers, dtype, 2 * block), dtype, 3 * block);
      EXPECT_NEAR(out[2 * block - 1], 0.5, 0.01);
      EXPECT_TRUE(std::isnan(out[2 * block + 6])) << DtypeName(dtype) << bad;
    }
  }
}

}  // namespace
}  // namespace folio
