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

template <class T>
using Values = std::vector<T>;

Values<float> Normals(TorchRng& rng, size_t count, double mean = 0, double std = 1) {
  Values<float> out(count);
  rng.Normal(out, mean, std);
  return out;
}

Values<float> Uniforms(TorchRng& rng, size_t count, double from = 0, double to = 1) {
  Values<float> out(count);
  rng.Uniform(out, from, to);
  return out;
}

Values<int64_t> Integers(TorchRng& rng, size_t count, int64_t low, int64_t high) {
  Values<int64_t> out(count);
  rng.RandInt(out, low, high);
  return out;
}

TEST(TorchRng, FirstWordsOfSeed137) {
  TorchRng rng(137);
  for (uint32_t word : {4053805790u, 2173880614u, 380293709u, 1237255315u, 2986595568u}) {
    EXPECT_EQ(rng.Random32(), word);
  }
}

// The value that ISO C++ gives for std::mt19937's 10000th draw.
TEST(TorchRng, TenThousandthWordOfTheDefaultSeed) {
  TorchRng rng(5489);
  for (int i = 0; i < 9999; ++i) rng.Random32();
  EXPECT_EQ(rng.Random32(), 4123659995u);
}

TEST(TorchRng, HighWordIsDrawnFirst) {
  TorchRng rng(137);
  EXPECT_EQ(rng.Random64(), uint64_t{4053805790u} << 32 | 2173880614u);
}

TEST(TorchRng, OnlyTheLow32BitsOfASeedCount) {
  TorchRng rng(0xfedcba9876543210u);
  EXPECT_EQ(Uniforms(rng, 2), (Values<float>{0x1.b8af2ep-1f, 0x1.fef54ep-1f}));
}

// Drawn with PyTorch 2.13 from one generator, in this order: every path leaves the next one the
// right words, and the second normal of a pair waits across other draws.
TEST(TorchRng, MixedDrawsOfSeed137) {
  TorchRng rng(137);
  EXPECT_EQ(Normals(rng, 3, 0.5, 2.0),
            (Values<float>{0x1.2877cep+1f, 0x1.1e95ep-1f, 0x1.3642f2p+1f}));
  EXPECT_EQ(Uniforms(rng, 3, -0.25, 1.5),
            (Values<float>{0x1.522a18p+0f, 0x1.d4018cp-1f, 0x1.ec023cp-1f}));
  EXPECT_EQ(Normals(rng, 4),
            (Values<float>{0x1.cd04cp-1f, 0x1.e5e9ccp-1f, 0x1.02f97ap+0f, -0x1.2936a2p-1f}));
  EXPECT_EQ(Integers(rng, 4, -5, 1000003), (Values<int64_t>{973451, 543442, 485959, 147066}));
  EXPECT_EQ(Integers(rng, 3, -7, (int64_t{1} << 40) + 12345),
            (Values<int64_t>{275364001513, 777778195438, 1094380582433}));
  EXPECT_EQ(Integers(rng, 2, 0, int64_t{1} << 28), (Values<int64_t>{23607607, 213317375}));
  EXPECT_EQ(Integers(rng, 2, 0, (int64_t{1} << 28) - 1), (Values<int64_t>{153677530, 45084717}));
  EXPECT_EQ(Normals(rng, 19, -1.5, 0.3),
            (Values<float>{-0x1.e2e1d6p+0f, -0x1.0f1cdep+1f, -0x1.53d0b6p+0f, -0x1.28f942p+0f,
                           -0x1.7fdd94p+0f, -0x1.47e1b4p+0f, -0x1.2128eep-1f, -0x1.53f5e4p+0f,
                           -0x1.35a1c2p+0f, -0x1.845b98p+0f, -0x1.fee5a2p-1f, -0x1.77418cp+0f,
                           -0x1.a87a84p+0f, -0x1.5a28b4p+0f, -0x1.810bdap+0f, -0x1.b1178cp+0f,
                           -0x1.9a37a0p+0f, -0x1.5212d2p+0f, -0x1.c1e1b6p+0f}));
  EXPECT_EQ(Normals(rng, 1), (Values<float>{0x1.849d96p+0f}));
}

TEST(TorchRng, GoesOnFromASavedState) {
  TorchRng rng(7);
  Normals(rng, 701);  // leaves the position inside the words
  Normals(rng, 1);    // and a normal waiting
  const TorchRng::State saved = rng.state();
  EXPECT_TRUE(saved.has_normal);
  const Values<float> expected = Normals(rng, 5);
  const Values<float> expected_later = Normals(rng, 1000);
  TorchRng other(8);
  other.set_state(saved);
  EXPECT_EQ(Normals(other, 5), expected);
  EXPECT_EQ(Normals(other, 1000), expected_later);
}

TEST(TorchRng, NormalsOfTheVectorPathHaveTheRightMoments) {
  TorchRng rng(3);
  const Values<float> x = Normals(rng, 1 << 16, 2.0, 0.5);
  double sum = 0, squares = 0;
  for (float v : x) sum += v;
  const double n = static_cast<double>(x.size()), mean = sum / n;
  for (float v : x) squares += (v - mean) * (v - mean);
  EXPECT_NEAR(mean, 2.0, 5 * 0.5 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 0.25, 5 * 0.25 * std::sqrt(2 / n));
}

}  // namespace
}  // namespace folio
