#include "folio/tensor/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

namespace folio {
namespace {

template <class In, class Out>
std::vector<Out> Decoded(const std::vector<In>& values, Dtype from) {
  // One byte off, so that any load which assumes alignment is caught by the sanitizer.
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

// Every binary16 number comes back, and what lies between two goes to the nearer, in the middle to
// the even one.
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

}  // namespace
}  // namespace folio
