#include "folio/base/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

namespace folio {
namespace {

using Words = std::array<uint32_t, 4>;

// The known answers published with the Random123 library.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(Philox({ones, ones, ones, ones}, {ones, ones}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

constexpr uint64_t kSeed = 0x0123456789abcdef, kStream = 0xfedcba9876543210;

Words BlockAt(uint64_t block) {
  return Philox(
      {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0x76543210, 0xfedcba98},
      {0x89abcdef, 0x01234567});
}

TEST(CounterRng, SixtyFourNumbersAreSixteenBlocksWordByWord) {
  const CounterRng rng(kSeed, kStream);
  for (uint64_t group : {uint64_t{0}, uint64_t{1}, uint64_t{12345}, (uint64_t{1} << 58) - 1}) {
    for (uint64_t word = 0; word < 4; ++word) {
      for (uint64_t lane = 0; lane < 16; ++lane) {
        EXPECT_EQ(rng.Bits(group * 64 + word * 16 + lane), BlockAt(group * 16 + lane)[word])
            << group << " " << word << " " << lane;
      }
    }
  }
}

TEST(CounterRng, UniformIsTheBitsOver2To32) {
  const CounterRng rng(kSeed, kStream);
  for (uint64_t i : {0u, 1u, 63u, 64u, 1000u}) {
    EXPECT_EQ(rng.Uniform(i), rng.Bits(i) / 4294967296.0);
  }
}

TEST(CounterRng, SeedsAndStreamsDiffer) {
  std::set<uint32_t> firsts;
  for (uint64_t high : {uint64_t{0}, uint64_t{1} << 32}) {
    for (uint64_t low : {0u, 1u}) {
      firsts.insert(CounterRng(high | low, 2).Bits(0));
      firsts.insert(CounterRng(2, high | low).Bits(0));
    }
  }
  EXPECT_EQ(firsts.size(), 8u);
}

struct Moments {
  double mean = 0, variance = 0, largest = 0, correlation = 0;  // of neighbours
};

template <class F>
Moments MomentsOf(int n, F value) {
  std::vector<double> x;
  for (int i = 0; i < n; ++i) x.push_back(value(static_cast<uint64_t>(i)));
  Moments m;
  for (double v : x) m.mean += v / n;
  for (int i = 0; i < n; ++i) {
    const double d = x[static_cast<size_t>(i)] - m.mean;
    m.variance += d * d / n;
    if (i > 0) m.correlation += d * (x[static_cast<size_t>(i) - 1] - m.mean) / n;
    m.largest = std::max(m.largest, std::abs(x[static_cast<size_t>(i)]));
  }
  m.correlation /= m.variance;
  return m;
}

// Bounds are five standard deviations of the estimate.
TEST(CounterRng, UniformMoments) {
  const int n = 100003;
  const CounterRng rng(1, RngStream(RngPurpose::kDropout, 5, 7));
  const Moments m = MomentsOf(n, [&](uint64_t i) { return rng.Uniform(i); });
  EXPECT_NEAR(m.mean, 0.5, 5 * std::sqrt(1.0 / 12 / n));
  EXPECT_NEAR(m.variance, 1.0 / 12, 5 * std::sqrt(1.0 / 180 / n));
  EXPECT_NEAR(m.correlation, 0, 5 / std::sqrt(n));
  EXPECT_LT(m.largest, 1.0);
}

TEST(CounterRng, NormalMoments) {
  const int n = 100003;
  const CounterRng rng(1, RngStream(RngPurpose::kInit));
  const Moments m = MomentsOf(n, [&](uint64_t i) { return rng.Normal(i); });
  EXPECT_NEAR(m.mean, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(m.variance, 1, 5 * std::sqrt(2.0 / n));
  EXPECT_NEAR(m.correlation, 0, 5 / std::sqrt(n));
  EXPECT_GT(m.largest, 3.5);
  EXPECT_LT(m.largest, 6.7);
  const Moments fourth = MomentsOf(n, [&](uint64_t i) { return std::pow(rng.Normal(i), 4); });
  EXPECT_NEAR(fourth.mean, 3, 5 * std::sqrt(96.0 / n));
}

TEST(CounterRng, BelowIsTheHighWordOfTheProduct) {
  const CounterRng rng(kSeed, kStream);
  for (uint64_t n : {uint64_t{1}, uint64_t{7}, uint64_t{0xffffffff}, uint64_t{1} << 32,
                     uint64_t{9035582198}, ~uint64_t{0}}) {
    for (uint64_t i = 0; i < 200; ++i) {
      const Words block = BlockAt(i);
      const unsigned __int128 random = uint64_t{block[0]} << 32 | block[1];
      EXPECT_EQ(rng.Below(i, n), static_cast<uint64_t>((random * n) >> 64));
    }
  }
}

TEST(CounterRng, BelowReachesEveryValueAboutEquallyOften) {
  const CounterRng rng(3, 4);
  const int n = 70000, values = 7;
  std::vector<int> seen(values);
  for (uint64_t i = 0; i < n; ++i) ++seen[rng.Below(i, values)];
  for (int count : seen) EXPECT_NEAR(count, n / values, 5 * std::sqrt(n / values));
}

TEST(RngStream, PartsDoNotMeet) {
  std::set<uint64_t> streams;
  const uint64_t last_a = (uint64_t{1} << 40) - 1, last_b = (uint64_t{1} << 16) - 1;
  for (RngPurpose purpose : {RngPurpose::kInit, RngPurpose::kDropout, RngPurpose::kEvaluation}) {
    for (uint64_t a : {uint64_t{0}, uint64_t{1}, last_a}) {
      for (uint64_t b : {uint64_t{0}, uint64_t{1}, last_b}) {
        streams.insert(RngStream(purpose, a, b));
      }
    }
  }
  EXPECT_EQ(streams.size(), 27u);
  EXPECT_DEATH(RngStream(RngPurpose::kInit, last_a + 1, 0), "out of range");
  EXPECT_DEATH(RngStream(RngPurpose::kInit, 0, last_b + 1), "out of range");
}

}  // namespace
}  // namespace folio
