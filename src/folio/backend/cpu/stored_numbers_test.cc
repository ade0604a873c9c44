#include "folio/backend/cpu/stored_numbers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "folio/backend/operands.h"
#include "folio/base/rng.h"
#include "folio/base/test_simd_targets.h"
#include "folio/tensor/dtype.h"

namespace folio::cpu {
namespace {

constexpr int64_t kBlock = 32;

// More blocks than are processed at a time.
constexpr int64_t kBlocks = 150;

// Numbers of every size, ties among them, and blocks that cannot be quantised.
std::vector<float> AwkwardNumbers(int64_t count) {
  const CounterRng rng(7, 0);
  std::vector<float> numbers(static_cast<size_t>(count));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto value = static_cast<float>(rng.Normal(i));
    numbers[i] = std::ldexp(i % 3 == 0 ? std::round(value * 8) / 16 : value,
                            static_cast<int>(i / kBlock * 7 % 200) - 140);
  }
  const float specials[] = {std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(),
                            1e30f,
                            -0.0f,
                            std::bit_cast<float>(0x7F7FFFFFu),
                            std::bit_cast<float>(0x3F808000u),
                            std::bit_cast<float>(0x00008001u),
                            std::bit_cast<float>(0x7F800001u)};
  for (size_t i = 0; i < std::size(specials) && i * 67 < numbers.size(); ++i) {
    numbers[i * 67] = specials[i];
  }
  return numbers;
}

void ExpectSame(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(expected[i])) {
      ASSERT_TRUE(std::isnan(found[i])) << i;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(found[i]), std::bit_cast<uint32_t>(expected[i])) << i;
    }
  }
}

class StoredNumbers : public OnSimdTarget {};

TEST_P(StoredNumbers, OfEveryPatternAreDecoded) {
  const CounterRng rng(3, 0);
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBF16, Dtype::kQ8_0, Dtype::kQ4_0}) {
    for (const int64_t blocks : {int64_t{1}, kBlocks}) {
      // Like rows of a file, the numbers begin at any even address.
      std::vector<std::byte> bytes(2 + DtypeBytes(dtype, blocks * kBlock));
      for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(rng.Bits(i));
      const auto count = static_cast<size_t>(blocks * kBlock);
      std::vector<float> found(count, 1.0f), expected(count, 2.0f);
      DecodeStored(dtype, bytes.data() + 2, blocks * kBlock, found.data());
      DecodeFloats(bytes.data() + 2, dtype, std::span(expected));
      ExpectSame(found, expected);
    }
  }
}

TEST_P(StoredNumbers, AreEveryBinary16Number) {
  constexpr int64_t kCount = 65536;
  std::vector<uint16_t> bits(kCount);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  const auto* bytes = reinterpret_cast<const std::byte*>(bits.data());
  for (const int64_t begin : {0, 1, 13}) {  // the last vector is a part of one
    std::vector<float> found(static_cast<size_t>(kCount - begin)), expected(found.size());
    DecodeStored(Dtype::kF16, bytes + 2 * begin, kCount - begin, found.data());
    DecodeFloats(bytes + 2 * begin, Dtype::kF16, std::span(expected));
    ExpectSame(found, expected);
  }
}

// Scales are not random here: each binary16 number once, with all integers.
TEST_P(StoredNumbers, HaveEveryScale) {
  for (const Dtype dtype : {Dtype::kQ8_0, Dtype::kQ4_0}) {
    constexpr int64_t kScales = 65536;
    const size_t block_bytes = DtypeBytes(dtype, kBlock);
    std::vector<std::byte> bytes(kScales * block_bytes);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 + i / 256);
    for (size_t i = 0; i < kScales; ++i) {
      const auto scale = static_cast<uint16_t>(i);
      std::memcpy(bytes.data() + i * block_bytes, &scale, sizeof scale);
    }
    std::vector<float> found(kScales * kBlock), expected(found.size());
    DecodeStored(dtype, bytes.data(), kScales * kBlock, found.data());
    DecodeFloats(bytes.data(), dtype, std::span(expected));
    ExpectSame(found, expected);
  }
}

TEST_P(StoredNumbers, AreRoundedAsRoundNumbersDoesIt) {
  for (const Rounding rounding : {Rounding::kBF16, Rounding::kBlockFloat}) {
    const int64_t odd = rounding == Rounding::kBF16 ? 13 : 0;
    const std::vector<float> x = AwkwardNumbers(kBlocks * kBlock + odd);
    std::vector<float> found(x.size(), 1.0f), expected = x;
    RoundInto(rounding, x.data(), std::ssize(x), found.data());
    RoundNumbers(rounding, expected);
    ExpectSame(found, expected);
  }
}

TEST_P(StoredNumbers, BecomeHalvesAsToBF16DoesIt) {
  const std::vector<float> x = AwkwardNumbers(1003);
  std::vector<BF16> found(x.size());
  RoundToHalves(x.data(), std::ssize(x), found.data());
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(found[i], ToBF16(x[i])) << i;
}

// A unit is 2^-13 of the power of two above the largest number, unless that underflows in float32.
TEST_P(StoredNumbers, BecomeIntegersOfTwoBytes) {
  const std::vector<float> x = AwkwardNumbers(kBlocks * kBlock);
  std::vector<int8_t> high(x.size()), low(x.size());
  std::vector<float> scales(kBlocks);
  RoundToBlocks(x.data(), kBlocks, high.data(), low.data(), scales.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t block = i / kBlock;
    EXPECT_LE(std::max(std::abs(high[i]), std::abs(low[i])), 64);
    if (std::isnan(scales[block])) {
      EXPECT_EQ(high[i], 0);
      EXPECT_EQ(low[i], 0);
      continue;
    }
    float largest = 0;
    for (size_t j = 0; j < kBlock; ++j)
      largest = std::max(largest, std::abs(x[block * kBlock + j]));
    const double unit = scales[block], off = unit * (128 * high[i] + low[i]) - x[i];
    EXPECT_TRUE(unit == 0x1p-126 || (largest < unit * 0x1p13 && largest >= unit * 0x1p12)) << i;
    EXPECT_LE(std::abs(off), unit * 0.5) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(, StoredNumbers, EverySimdTarget(), SimdTargetName);

}  // namespace
}  // namespace folio::cpu
