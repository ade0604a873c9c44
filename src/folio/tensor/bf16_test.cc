#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "folio/tensor/dtype.h"

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

// The value of a pattern that is no NaN, worked out from sign, exponent and fraction; of infinity,
// where its exponent would continue the numbers, which is what rounding to it must see.
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

// Between each number and the next away from zero, subnormal, normal and largest ones: what is
// nearer wins, and in the middle the even one.
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

// Payloads that live in the lower half only would round to infinity, full ones to zero.
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

}  // namespace
}  // namespace folio
