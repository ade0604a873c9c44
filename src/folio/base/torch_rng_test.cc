#include "folio/base/torch_rng.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace folio {
namespace {

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
