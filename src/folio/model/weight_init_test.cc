#include "folio/model/weight_init.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "folio/base/thread_pool.h"
#include "folio/model/test_models.h"
#include "folio/model/transformer.h"
#include "tests/kit/near.h"

namespace folio {
namespace {

GptConfig MiddleConfig() {
  GptConfig config = TinyConfig();
  config.vocab_size = 101;
  config.n_positions = 70;
  config.n_embd = 64;
  config.n_layer = 3;
  config.tie_word_embeddings = false;
  return config;
}

double Mean(std::span<const float> x) {
  double sum = 0;
  for (float value : x) sum += value;
  return sum / static_cast<double>(x.size());
}

double Deviation(std::span<const float> x) {
  double sum = 0;
  for (float value : x) sum += static_cast<double>(value) * value;
  return std::sqrt(sum / static_cast<double>(x.size()));
}

std::span<const float> Param(const GptWeights& weights, const ParamInfo& info) {
  return Elements<float>(weights.table().View(info, weights.flat()));
}

// Five standard errors of the mean and of the deviation of n normal numbers.
void ExpectNormal(std::span<const float> x, double deviation, const std::string& name) {
  const double n = static_cast<double>(x.size());
  EXPECT_NEAR(Mean(x), 0, 5 * deviation / std::sqrt(n)) << name;
  EXPECT_NEAR(Deviation(x), deviation, 5 * deviation / std::sqrt(2 * n)) << name;
}

TEST(InitWeights, HasTheDeviationsOfGpt2) {
  GptConfig config = MiddleConfig();
  config.initializer_range = 0.05;
  GptWeights weights(config);
  InitWeights(weights, 3);
  for (const ParamInfo& info : weights.table().params()) {
    const std::span<const float> x = Param(weights, info);
    if (info.name.ends_with("c_proj.weight")) {
      ExpectNormal(x, 0.05 / std::sqrt(6.0), info.name);
    } else if (info.shape.rank() == 2) {
      ExpectNormal(x, 0.05, info.name);
    } else {
      const float expected =
          info.name.find("ln_") != std::string::npos && info.name.ends_with(".weight") ? 1.0f
                                                                                       : 0.0f;
      for (float value : x) ASSERT_EQ(value, expected) << info.name;
    }
  }
}

TEST(InitWeights, GivesEveryParameterNumbersOfItsOwn) {
  GptWeights weights(MiddleConfig());
  InitWeights(weights, 3);
  const BlockParams& first = weights.params().h[0];
  const BlockParams& second = weights.params().h[1];
  EXPECT_NE(first.attn.c_attn.weight.data<float>()[0], second.attn.c_attn.weight.data<float>()[0]);
  EXPECT_NE(first.attn.c_attn.weight.data<float>()[0], first.mlp.c_fc.weight.data<float>()[0]);
}

TEST(InitWeights, XavierFillsItsBounds) {
  GptConfig config = MiddleConfig();
  config.init = InitMethod::kXavierUniform;
  GptWeights weights(config);
  InitWeights(weights, 3);
  for (const ParamInfo& info : weights.table().params()) {
    if (info.shape.rank() != 2) continue;
    const double bound = std::sqrt(6.0 / static_cast<double>(info.shape[0] + info.shape[1]));
    const std::span<const float> x = Param(weights, info);
    EXPECT_LE(Largest(x), bound * (1 + 1e-6)) << info.name;
    EXPECT_GE(Largest(x), bound * 0.99) << info.name;
    const double n = static_cast<double>(x.size()), deviation = bound / std::sqrt(3.0);
    EXPECT_NEAR(Mean(x), 0, 5 * deviation / std::sqrt(n)) << info.name;
    EXPECT_NEAR(Deviation(x), deviation, 5 * deviation / std::sqrt(n)) << info.name;
  }
}

TEST(InitWeights, NanochatHasItsOwnForEachKind) {
  GptConfig config = MiddleConfig();
  AddNanochatExtras(config);
  config.init = InitMethod::kNanochat;
  config.bias = false;
  config.norm = NormKind::kRmsNoWeight;
  GptWeights weights(config);
  InitWeights(weights, 3);
  const double bound = std::sqrt(3.0 / 64);
  const auto expect_uniform = [](std::span<const float> x, double low, double high) {
    const auto [least, most] = std::ranges::minmax(x);
    EXPECT_GE(least, low * (1 + 1e-6));
    EXPECT_LT(least, low + 0.2 * (high - low));
    EXPECT_LE(most, high * (1 + 1e-6));
    EXPECT_GT(most, high - 0.2 * (high - low));
    EXPECT_NEAR(Mean(x), (low + high) / 2, 0.2 * (high - low));
  };
  size_t checked = 0;
  for (const ParamInfo& info : weights.table().params()) {
    const std::span<const float> x = Param(weights, info);
    SCOPED_TRACE(info.name);
    ++checked;
    if (info.module == "wte") {
      ExpectNormal(x, 0.8, info.name);
    } else if (info.module == kHeadName) {
      ExpectNormal(x, 0.001, info.name);
    } else if (info.module == "attn.c_attn" || info.module == "attn.value_embeds") {
      expect_uniform(x, -bound, bound);
    } else if (info.module == "mlp.c_fc") {
      expect_uniform(x, -0.4 * bound, 0.4 * bound);
    } else if (info.module.ends_with("c_proj")) {
      EXPECT_EQ(Deviation(x), 0);
    } else if (info.module.ends_with("_gate")) {
      expect_uniform(x, 0, 0.02);
    } else if (info.module == "resid_lambdas") {
      EXPECT_EQ(std::vector(x.begin(), x.end()), std::vector({1.15f, 1.10f, 1.05f}));
    } else if (info.module == "x0_lambdas") {
      EXPECT_EQ(std::vector(x.begin(), x.end()), std::vector({0.2f, 0.125f, 0.05f}));
    } else if (info.module == "backout_lambda") {
      EXPECT_EQ(x[0], 0.2f);
    } else {
      EXPECT_EQ(info.module, "smear_lambda");
      EXPECT_EQ(x[0], 0);
    }
  }
  EXPECT_EQ(checked, 2u + 3 * 4 + 2 * 2 + 2 + 3);
}

TEST(InitWeights, XavierTakesQkvAsThreeMatricesIfAsked) {
  GptConfig config = MiddleConfig();
  config.n_embd = 96;
  config.init = InitMethod::kXavierUniformSplit;
  GptWeights weights(config);
  InitWeights(weights, 3);
  const std::span<const float> packed = Elements<float>(weights.params().h[1].attn.c_attn.weight);
  EXPECT_NEAR(Largest(packed), 0.1768, 2e-4);  // sqrt(6 / (96 + 96))
  config.init = InitMethod::kXavierUniform;
  GptWeights whole(config);
  InitWeights(whole, 3);
  EXPECT_NEAR(Largest(Elements<float>(whole.params().h[1].attn.c_attn.weight)), 0.125, 2e-4);
  // All else is the same.
  for (const ParamInfo& info : weights.table().params()) {
    if (info.module == "attn.c_attn") continue;
    const std::span<const float> x = Param(weights, info), y = Param(whole, info);
    EXPECT_TRUE(std::equal(x.begin(), x.end(), y.begin())) << info.name;
  }
}

// Projections that are not scaled start as wide as other matrices: both, or that of attention.
TEST(InitWeights, ScalesResidualProjectionsAndLeavesPositionsAsAsked) {
  GptConfig config = MiddleConfig();
  GptWeights usual(config);
  InitWeights(usual, 3);
  for (const std::string scaled : {"false", "mlp"}) {
    config.init_scaled_residuals = *FromName<ScaledResiduals>(scaled);
    config.init_zero_positions = scaled == "false";
    GptWeights weights(config);
    InitWeights(weights, 3);
    const char* unscaled = scaled == "false" ? "c_proj.weight" : "attn.c_proj.weight";
    for (const ParamInfo& info : weights.table().params()) {
      const std::span<const float> x = Param(weights, info), y = Param(usual, info);
      if (info.name.ends_with(unscaled)) {
        ExpectNormal(x, config.initializer_range, info.name);
      } else if (config.init_zero_positions && info.module == "wpe") {
        EXPECT_EQ(Largest(x), 0);
      } else {
        EXPECT_TRUE(std::equal(x.begin(), x.end(), y.begin())) << info.name;
      }
    }
  }
}

TEST(InitWeights, DependsOnTheSeedAndNotOnThreads) {
  const int threads = Threads();
  GptWeights one(MiddleConfig()), two(MiddleConfig()), other(MiddleConfig());
  SetThreads(1);
  InitWeights(one, 5);
  SetThreads(3);
  InitWeights(two, 5);
  InitWeights(other, 6);
  SetThreads(threads);
  EXPECT_EQ(std::memcmp(one.flat().raw(), two.flat().raw(), one.flat().bytes()), 0);
  EXPECT_NE(std::memcmp(one.flat().raw(), other.flat().raw(), one.flat().bytes()), 0);
}

TEST(InitWeights, Float64IsTheSameBeforeRounding) {
  GptWeights single(MiddleConfig()), twice(MiddleConfig(), Dtype::kF64);
  InitWeights(single, 5);
  InitWeights(twice, 5);
  const auto exact = Elements<double>(twice.flat());
  const auto rounded = Elements<float>(single.flat());
  for (size_t i = 0; i < exact.size(); ++i) ASSERT_EQ(static_cast<float>(exact[i]), rounded[i]);
}

// nanoGPT's character-level run (4 layers, 4 heads, 128 channels, 65 symbols, T = 64) under
// torch.manual_seed(1337), with PyTorch 1.13: the first numbers of its parameters, then of its
// first batch. Linear weights are [out,in] there and [in,out] here.
TEST(InitWeightsLikeTorch, DrawsWhatNanoGptDraws) {
  GptConfig config{
      .vocab_size = 65, .n_positions = 64, .n_embd = 128, .n_layer = 4, .n_head = 4, .bias = false};
  GptWeights weights(config);
  TorchRng rng(1337);
  InitWeightsLikeTorch(weights, rng);
  struct Expected {
    Tensor x;
    int64_t step;  // from one number that PyTorch draws to the next
    double sum_of_squares;
    std::optional<double> sum;
    std::vector<float> first;
  };
  const GptParams& p = weights.params();
  const Expected all[] = {
      {p.wte,
       1,
       3.268457280806388,
       2.518700145764342,
       {0.00025585145340301096f, 0.010895807296037674f, -0.03345748782157898f, 0.01934850960969925f,
        -0.004427093081176281f, 0.008136718533933163f, 0.043697260320186615f,
        -0.01037060096859932f}},
      {p.wpe,
       1,
       3.270394561576892,
       -0.4392910441379172,
       {0.012806390412151814f, -0.01703101210296154f, -0.014931118115782738f,
        -0.018009353429079056f, 0.011699833907186985f, -0.015265545807778835f,
        0.012685329653322697f, 0.0026640628930181265f}},
      {p.h[0].attn.c_attn.weight,
       384,
       19.597348217165855,
       {},
       {0.000764419324696064f, -0.029279107227921486f, 0.003945759031921625f,
        -0.00033145691850222647f}},
      {p.h[1].attn.c_proj.weight,
       128,
       0.8094682137975022,
       {},
       {0.004990449640899897f, 0.001366102835163474f, -0.0033936400432139635f,
        0.002176049165427685f}},
      {p.h[2].mlp.c_fc.weight,
       512,
       26.190015476010494,
       -5.495217132736741,
       {0.0009097569854930043f, -0.02702200412750244f, 0.004762579686939716f,
        0.0019482026109471917f, -0.015961403027176857f, -0.034441545605659485f,
        -0.011418420821428299f, -0.008569289930164814f}},
      {p.h[3].mlp.c_proj.weight,
       128,
       3.2957086309342385,
       0.0122832145273577,
       {-0.002134107518941164f, 0.006184703670442104f, -0.00028715451480820775f,
        -0.011834598146378994f, -0.001820979407057166f, -0.004707323852926493f,
        0.009659482166171074f, 0.004802483133971691f}},
  };
  for (const Expected& e : all) {
    double sum = 0, squares = 0;
    for (double value : Elements<float>(e.x)) {
      sum += value;
      squares += value * value;
    }
    EXPECT_NEAR(squares, e.sum_of_squares, 1e-9);
    if (e.sum) {
      EXPECT_NEAR(sum, *e.sum, 1e-9);
    }
    const float* next = e.x.data<float>();
    for (const float value : e.first) {
      EXPECT_EQ(*next, value);
      next += e.step;
    }
  }
  for (float value : Elements<float>(p.h[3].ln_2.weight)) ASSERT_EQ(value, 1.0f);
  std::vector<int64_t> starts(12);
  rng.RandInt(starts, 0, 1003854 - 64);
  EXPECT_EQ(starts, (std::vector<int64_t>{485778, 573436, 991809, 730911, 545111, 732960, 656043,
                                          328484, 116521, 817434, 510961, 595837}));
}

// A module without the last loop of its constructor, and one whose positions are a parameter of
// zeros, draw that many numbers less.
TEST(InitWeightsLikeTorch, DrawsNothingForWhatItDoesNotScaleOrSet) {
  GptConfig config = TinyConfig();
  GptWeights usual(config);
  TorchRng rng(7), unscaled_rng(7), zero_rng(7);
  InitWeightsLikeTorch(usual, rng);
  config.init_scaled_residuals = ScaledResiduals::kNone;
  GptWeights unscaled(config);
  InitWeightsLikeTorch(unscaled, unscaled_rng);
  const auto c_fc = [](const GptWeights& weights) { return weights.params().h[1].mlp.c_fc.weight; };
  EXPECT_EQ(c_fc(unscaled).data<float>()[0], c_fc(usual).data<float>()[0]);
  const std::span<const float> projection =
      Elements<float>(unscaled.params().h[1].mlp.c_proj.weight);
  ExpectNormal(projection, config.initializer_range, "c_proj");
  EXPECT_NE(rng.Random32(), unscaled_rng.Random32());
  // A last loop over half of the projections draws half as much.
  config.init_scaled_residuals = ScaledResiduals::kMlp;
  GptWeights half(config);
  TorchRng half_rng(7);
  InitWeightsLikeTorch(half, half_rng);
  const auto attention = [](const GptWeights& weights) {
    return Elements<float>(weights.params().h[1].attn.c_proj.weight);
  };
  const auto mlp = [](const GptWeights& weights) {
    return Elements<float>(weights.params().h[1].mlp.c_proj.weight);
  };
  EXPECT_TRUE(std::ranges::equal(attention(half), attention(unscaled)));
  EXPECT_FALSE(std::ranges::equal(mlp(half), mlp(unscaled)));
  EXPECT_FALSE(std::ranges::equal(mlp(half), mlp(usual)));  // drawn before
  config.init_zero_positions = true;
  GptWeights zero(config);
  InitWeightsLikeTorch(zero, zero_rng);
  EXPECT_EQ(Largest(Elements<float>(zero.params().wpe)), 0);
  EXPECT_NE(c_fc(zero).data<float>()[0], c_fc(usual).data<float>()[0]);
}

TEST(InitWeightsLikeTorch, DrawsForBiasesAndForgetsThem) {
  GptWeights with(TinyConfig());
  TorchRng rng(7), same(7);
  InitWeightsLikeTorch(with, rng);
  for (const ParamInfo& info : with.table().params()) {
    if (!info.name.ends_with(".bias")) continue;
    for (float value : Param(with, info)) ASSERT_EQ(value, 0.0f) << info.name;
  }
  GptConfig bare = TinyConfig();
  bare.bias = false;
  GptWeights without(bare);
  InitWeightsLikeTorch(without, same);
  EXPECT_NE(rng.Random32(), same.Random32());
}

}  // namespace
}  // namespace folio
