#include "folio/lesson/lessons.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "folio/base/error.h"
#include "folio/io/file.h"
#include "folio/lesson/test_walks.h"
#include "folio/report/report.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/near.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

using Numbers = std::vector<double>;

class Topics : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Backend> backend_ = MakeBackend(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Backends, Topics, testing::Values("cpu", "reference"));

nlohmann::json GoldenTopics() {
  const std::string path = GoldenFile("attention/expected.json");
  return path.empty() ? nlohmann::json() : nlohmann::json::parse(std::ifstream(path));
}

// ---- softmax -------------------------------------------------------------------------------

const std::vector<float> kTenTwentyThirty = {10, 20, 30};

TEST_P(Topics, SoftmaxGivesTheQuotedNumbers) {
  const Report walk = ExplainSoftmax(*backend_, kTenTwentyThirty);
  const Numbers plain = {2.0611e-9, 4.5398e-5, 0.99995};
  ExpectNear(NumbersOf(walk, "naive softmax"), plain, kFloat32Chain);
  EXPECT_NEAR(NumbersOf(walk, "softmax")[0] / plain[0], 1, 1e-4);
  ExpectNear(NumbersOf(walk, "softmax of the scaled"), {0.2010, 0.3126, 0.4864}, QuotedTo(4));
  ExpectNear(NumbersOf(walk, "sum"), {1}, kFloat32Row);
  ExpectNear(NumbersOf(walk, "shifted"), {-20, -10, 0}, 0);
}

TEST_P(Topics, SoftmaxEqualsGolden) {
  const nlohmann::json golden = GoldenTopics();
  if (golden.is_null()) GTEST_SKIP() << "no golden numbers here";
  const Report walk = ExplainSoftmax(*backend_, kTenTwentyThirty);
  ExpectNear(NumbersOf(walk, "softmax"), golden["softmax_10_20_30"]["plain"], kFloat32Once);
  ExpectNear(NumbersOf(walk, "softmax of the scaled"),
             golden["softmax_10_20_30"]["divided_by_sqrt_512"], kFloat32Row);
}

TEST_P(Topics, OnlyTheNaiveSoftmaxOverflows) {
  const Report walk = ExplainSoftmax(*backend_, kTenTwentyThirty);
  const ReportPart& step = StepOf(walk, "overflow");
  EXPECT_FALSE(step.values.masks);
  EXPECT_TRUE(std::isnan(step.values.values[2]));
  ExpectNear({step.values.values.begin() + 3, step.values.values.end()}, NumbersOf(walk, "softmax"),
             kFloat32Once);
  // The same if the logits are far below 0.
  const Report low = ExplainSoftmax(*backend_, std::vector<float>{-1000, -990});
  EXPECT_TRUE(std::isnan(NumbersOf(low, "overflow")[1]));
  ExpectNear(NumbersOf(low, "softmax"), {4.5398e-5, 0.99995}, kFloat32Chain);
}

TEST_P(Topics, SlopesAreThoseOfSoftmax) {
  const Report walk = ExplainSoftmax(*backend_, kTenTwentyThirty);
  const Numbers p = NumbersOf(walk, "softmax of the scaled");
  const Matrix& slopes = StepOf(walk, "slopes").values;
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(slopes.values[3 + i], p[i] * (1 - p[i]), kFloat32Row);
}

TEST_P(Topics, TheVarianceOfProductsIsTheirWidth) {
  const Report walk = ExplainSoftmax(*backend_, std::vector<float>{1});
  const Numbers variances = NumbersOf(walk, "why the root of the width");
  EXPECT_NEAR(variances[0], 512, 25);
  EXPECT_NEAR(variances[1], 1, 0.05);
}

TEST_P(Topics, NumbersMustBeThereAndFinite) {
  EXPECT_THROW(ExplainSoftmax(*backend_, {}), Error);
  EXPECT_THROW(ExplainGelu(*backend_, std::vector<float>{NAN}), Error);
  EXPECT_THROW(ExplainLayerNorm(*backend_, std::vector<float>{INFINITY, 1}), Error);
  EXPECT_THROW(ExplainSampling(*backend_, std::span<const float>(), {}, {}), Error);
}

// ---- layernorm and gelu ------------------------------------------------------------------------

TEST_P(Topics, LayerNormHasPopulationVarianceAndGoesThroughWeightAndBias) {
  const std::vector<float> x = {2, -1, 0.5, 3, -0.5, 1, 7};
  const Report walk = ExplainLayerNorm(*backend_, x);
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / 7;
  double variance = 0;
  for (const float v : x) variance += (v - mean) * (v - mean) / 7;
  ExpectNear(NumbersOf(walk, "mean"), {mean}, kFloat32Row);
  ExpectNear(NumbersOf(walk, "variance"), {variance}, kFloat32Chain);
  ExpectNear(NumbersOf(walk, "factor"), {1 / std::sqrt(variance + 1e-5)}, kFloat32Row);
  ExpectNear(NumbersOf(walk, "check"), {0, 1}, kFloat32Chain);
  const Numbers weight = NumbersOf(walk, "weight");
  const Numbers bias = NumbersOf(walk, "bias");
  EXPECT_NE(weight[0], weight[1]);
  for (size_t i = 0; i < x.size(); ++i) {
    const double normalised = (x[i] - mean) / std::sqrt(variance + 1e-5);
    EXPECT_NEAR(NumbersOf(walk, "centred")[i], x[i] - mean, kFloat32Row);
    EXPECT_NEAR(NumbersOf(walk, "normalised")[i], normalised, kFloat32Chain);
    EXPECT_NEAR(NumbersOf(walk, "result")[i], normalised * weight[i] + bias[i], kFloat32Chain);
  }
}

TEST_P(Topics, LayerNormOfASingleNumberIsZero) {
  const Report walk = ExplainLayerNorm(*backend_, std::vector<float>{5});
  ExpectNear(NumbersOf(walk, "normalised"), {0}, 0);
  ExpectNear(NumbersOf(walk, "variance"), {0}, kFloat32Row);
}

TEST_P(Topics, RmsNormStepsLeadFromInputThroughWeight) {
  const std::vector<float> x = {2, -1, 0.5, 3, -0.5, 1, 7};
  const Report walk = ExplainRmsNorm(*backend_, x);
  double mean_square = 0, mean = 0;
  for (const float v : x) {
    mean_square += v * v / 7;
    mean += v / 7;
  }
  const double factor = 1 / std::sqrt(mean_square + 1e-5);
  ExpectNear(NumbersOf(walk, "mean square"), {mean_square}, kFloat32Chain);
  ExpectNear(NumbersOf(walk, "factor"), {factor}, kFloat32Row);
  ExpectNear(NumbersOf(walk, "check"), {mean * factor, 1}, kFloat32Chain);
  const Numbers weight = NumbersOf(walk, "weight");
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(NumbersOf(walk, "normalised")[i], x[i] * factor, kFloat32Row);
    EXPECT_NEAR(NumbersOf(walk, "result")[i], x[i] * factor * weight[i], kFloat32Row);
    EXPECT_EQ(RowOf(walk, "beside LayerNorm", 0)[i], NumbersOf(walk, "normalised")[i]);
  }
  EXPECT_EQ(RowOf(walk, "beside LayerNorm", 1),
            NumbersOf(ExplainLayerNorm(*backend_, x), "normalised"));
}

TEST_P(Topics, GatesAreSiluTimesUpAndItsGradients) {
  const std::vector<float> gates = {-1.5F, 0, 2};
  const Report walk = ExplainGatedMlp(*backend_, gates);
  const Matrix &products = StepOf(walk, "gate times up").values,
               &gradients = StepOf(walk, "gradients").values;
  for (int64_t i = 0; i < std::ssize(gates); ++i) {
    const double x = gates[static_cast<size_t>(i)], open = 1 / (1 + std::exp(-x));
    EXPECT_NEAR(StepOf(walk, "activations").values.At(i, 2), x * open, kFloat32Row);
    EXPECT_NEAR(products.At(i, 0), -2 * x * open, kFloat32Row);
    EXPECT_NEAR(products.At(i, 3), x * open, kFloat32Row);
    EXPECT_NEAR(gradients.At(i, 0), open * (1 + x * (1 - open)), kFloat32Row);
    EXPECT_NEAR(gradients.At(i, 1), x * open, kFloat32Row);
  }
}

TEST_P(Topics, GeluIsItsFormulasAndTheirDifferenceIsKnown) {
  const Report walk = ExplainGelu(*backend_, std::vector<float>{-1.5f, 0, 2});
  const Matrix& table = StepOf(walk, "activations").values;
  ASSERT_EQ(table.shape, (std::vector<int64_t>{3, 3}));
  const Numbers inputs = {-1.5, 0, 2};
  for (size_t i = 0; i < 3; ++i) {
    const double x = inputs[i];
    EXPECT_NEAR(table.values[3 * i], std::max(x, 0.0), 0);
    EXPECT_NEAR(table.values[3 * i + 1], x * 0.5 * std::erfc(-x / std::sqrt(2)), kFloat32Row);
    EXPECT_NEAR(table.values[3 * i + 2],
                0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))),
                kFloat32Row);
  }
  ExpectNear({StepOf(walk, "slopes").values.values.begin() + 3,
              StepOf(walk, "slopes").values.values.begin() + 6},
             {0, 0.5, 0.5}, kFloat32Row);
  // 4.73e-4 is the known distance of the two formulas.
  EXPECT_NEAR(std::abs(NumbersOf(walk, "largest difference")[1]), 4.73e-4, 5e-6);
}

// ---- positions -----------------------------------------------------------------------------

TEST_P(Topics, SinusoidsOfFourChannelsAreGolden) {
  const nlohmann::json golden = GoldenTopics();
  if (golden.is_null()) GTEST_SKIP() << "no golden numbers here";
  const auto expected = golden["sinusoidal_C4"].get<std::vector<Numbers>>();
  const Report walk = ExplainPositions(*backend_, std::ssize(expected), 4);
  const Matrix& table = StepOf(walk, "sinusoids").values;
  ASSERT_EQ(table.rows(), std::ssize(expected));
  for (size_t i = 0; i < table.values.size(); ++i) {
    EXPECT_NEAR(table.values[i], expected[i / 4][i % 4], kFloat64Chain);
  }
}

TEST_P(Topics, PositionsAreAnglesWhoseLikenessDependsOnDistance) {
  const Report walk = ExplainPositions(*backend_, 7, 6);
  const Matrix& angles = StepOf(walk, "angles").values;
  const Matrix& table = StepOf(walk, "sinusoids").values;
  for (size_t p = 0; p < 7; ++p) {
    for (size_t pair = 0; pair < 3; ++pair) {
      const double expected =
          static_cast<double>(p) / std::pow(10000, 2 * static_cast<double>(pair) / 6);
      EXPECT_NEAR(angles.values[3 * p + pair], expected, 1e-9);
      EXPECT_NEAR(table.values[6 * p + 2 * pair], std::sin(expected), kFloat64Chain);
    }
  }
  const Matrix& distances = StepOf(walk, "by distance").values;
  for (size_t d = 0; d < 7; ++d) {
    EXPECT_NEAR(distances.values[2 * d], distances.values[2 * d + 1], kFloat32Row);
    EXPECT_NEAR(distances.values[2 * d], NumbersOf(walk, "similarity")[d], kFloat32Row);
  }
  EXPECT_LT(distances.values[2], 0.99);
  const Matrix& added = StepOf(walk, "added to a token").values;
  EXPECT_NEAR(added.values[6 + 1], table.values[6 + 1] + 2.0 / 6, kFloat32Row);
}

TEST_P(Topics, RotaryTurnsPairsSoThatLikenessDependsOnDistance) {
  const Report walk = ExplainRotary(*backend_, 7, 6);
  const Matrix& turned = StepOf(walk, "turned").values;
  for (int64_t p = 0; p < 7; ++p) {
    for (int64_t pair = 0; pair < 3; ++pair) {
      const double angle =
          static_cast<double>(p) / std::pow(10000, 2 * static_cast<double>(pair) / 6);
      EXPECT_NEAR(StepOf(walk, "angles").values.At(p, pair), angle, kFloat32Row);
      EXPECT_NEAR(turned.At(p, pair), std::cos(angle), kFloat32Row);
      EXPECT_NEAR(turned.At(p, pair + 3), std::sin(angle), kFloat32Row);
    }
  }
  ExpectNear(NumbersOf(walk, "lengths"), Numbers(2, std::sqrt(3)), kFloat32Row);
  const Matrix& distances = StepOf(walk, "by distance").values;
  for (int64_t d = 0; d < 7; ++d) EXPECT_NEAR(distances.At(d, 0), distances.At(d, 1), kFloat32Row);
  EXPECT_THROW(ExplainRotary(*backend_, 5, 3), Error);
  EXPECT_THROW(ExplainRotary(*backend_, 0, 4), Error);
}

TEST_P(Topics, ManyPositionsAreThinned) {
  const Report walk = ExplainPositions(*backend_, 1000, 4);
  const Matrix& table = StepOf(walk, "sinusoids").values;
  EXPECT_EQ(table.rows(), 125);
  EXPECT_EQ(table.row_labels[3], "24");
  EXPECT_NEAR(table.values[3 * 4], std::sin(24.0), kFloat64Chain);
  EXPECT_NO_THROW(ExplainPositions(*backend_, 1, 2));
  EXPECT_THROW(ExplainPositions(*backend_, 5, 3), Error);
  EXPECT_THROW(ExplainPositions(*backend_, 0, 4), Error);
}

// ---- sampling ------------------------------------------------------------------------------

const std::vector<float> kLogits = {0.3f, 2.5f, -1, 2.4f, 0.9f};

TEST_P(Topics, CutsAreTheSamplers) {
  const SamplingOptions options{.temperature = 0.7, .top_k = 4, .top_p = 0.9, .seed = 3};
  const Report walk = ExplainSampling(*backend_, kLogits,
                                      std::vector<std::string>{"a", "b", "c", "d", "e"}, options);
  double total = 0;
  for (const double p : NumbersOf(walk, "probabilities")) total += p;
  EXPECT_NEAR(total, 1, kFloat32Row);
  Sampler all({.temperature = 0.7});
  for (const Candidate& c : all.Candidates(kLogits)) {
    EXPECT_NEAR(NumbersOf(walk, "probabilities")[static_cast<size_t>(c.id)], c.probability,
                kFloat32Row);
  }
  Sampler sampler(options);
  const auto kept = sampler.Candidates(kLogits);
  ASSERT_EQ(kept.size(), 2u);
  const Numbers shown = NumbersOf(walk, "candidates");
  EXPECT_EQ(std::ranges::count_if(shown, [](double p) { return !std::isnan(p); }), 2);
  for (const Candidate& c : kept) {
    EXPECT_EQ(shown[static_cast<size_t>(c.id)], c.probability);
  }
  const Matrix& draw = StepOf(walk, "draw").values;
  ASSERT_EQ(draw.rows(), 2);
  EXPECT_EQ(draw.values[1], kept[0].probability);
  EXPECT_NEAR(draw.values[3 + 1], 1, kFloat64Chain);
  const Numbers top_k = NumbersOf(walk, "top-k");
  EXPECT_TRUE(std::isnan(top_k[2]) && !std::isnan(top_k[0]));
  const Matrix& top_p = StepOf(walk, "top-p").values;
  EXPECT_EQ(top_p.rows(), 4);
  EXPECT_NEAR(top_p.values[3 * 3 + 1], 1, kFloat64Chain);
  EXPECT_TRUE(!std::isnan(top_p.values[3 + 2]) && std::isnan(top_p.values[6 + 2]));
}

TEST_P(Topics, TheDrawIsTheSamplers) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const SamplingOptions options{.temperature = 1.5, .seed = seed};
    const Report walk = ExplainSampling(*backend_, kLogits, {}, options);
    Sampler sampler(options);
    const int32_t drawn = sampler.Sample(kLogits, 0, 0);
    const Matrix& draw = StepOf(walk, "draw").values;
    for (int64_t r = 0; r < draw.rows(); ++r) {
      const auto at = static_cast<size_t>(3 * r);
      const bool chosen = draw.row_labels[static_cast<size_t>(r)] == "#" + std::to_string(drawn);
      EXPECT_EQ(!std::isnan(draw.values[at + 2]), chosen);
      if (!chosen) continue;
      EXPECT_LE(draw.values[at], draw.values[at + 2]);
      EXPECT_GT(draw.values[at + 1], draw.values[at + 2]);
    }
    for (uint64_t i = 0; i < 10; ++i) {
      EXPECT_EQ(NumbersOf(walk, "ten draws")[i], sampler.Sample(kLogits, 0, i));
    }
  }
}

TEST_P(Topics, GreedyTakesTheLikeliestAndOfManyTokensTheLikeliestAreShown) {
  const Report greedy = ExplainSampling(*backend_, kLogits, {}, {.temperature = 0});
  EXPECT_EQ(greedy.parts.size(), 2u);
  EXPECT_EQ(NumbersOf(greedy, "greedy")[1], 1);
  EXPECT_TRUE(std::isnan(NumbersOf(greedy, "greedy")[3]));
  std::vector<float> many(101);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<float>(i % 37);
  // A temperature so low that all others are infinitely unlikely.
  const Report walk = ExplainSampling(*backend_, many, {}, {.temperature = 1e-300});
  const Matrix& shown = StepOf(walk, "probabilities").values;
  EXPECT_EQ(shown.columns(), 16);
  EXPECT_EQ(shown.column_labels[0], "#36");
  ExpectNear({shown.values.begin(), shown.values.begin() + 3}, {0.5, 0.5, 0}, kFloat32Row);
}

class TokenVectorsOfAFile : public InTemporaryDirectory {
 protected:
  TokenVectors Read(const std::string& text) const {
    WriteFileAtomically(At("vectors"), text);
    return ReadTokenVectors(At("vectors"));
  }
  std::string Refusal(const std::string& text) const {
    return ErrorOf([&] { Read(text); }, ErrorKind::kInput);
  }
};

TEST_F(TokenVectorsOfAFile, AreLinesWithOrWithoutLabels) {
  const TokenVectors read = Read("\nthe 1 -2.5\r\n\n3e-1,\t4\n  dog, 5, 6");
  EXPECT_EQ(read.labels, (std::vector<std::string>{"the", "t1", "dog"}));
  EXPECT_EQ(read.numbers, (std::vector<float>{1, -2.5F, 0.3F, 4, 5, 6}));
  EXPECT_EQ(read.T(), 3);
  EXPECT_EQ(read.C(), 2);
}

TEST_F(TokenVectorsOfAFile, AreAnArrayOfArrays) {
  const TokenVectors read = Read(" [[1, 2.5], [-3, 4]]\n");
  EXPECT_EQ(read.labels, (std::vector<std::string>{"t0", "t1"}));
  EXPECT_EQ(read.numbers, (std::vector<float>{1, 2.5F, -3, 4}));
}

TEST_F(TokenVectorsOfAFile, AreRefusedWithTheLine) {
  EXPECT_TRUE(Contains(Refusal("a 1 2\nb 1 two\n"), "vectors:2", "'two' is not a number"));
  EXPECT_TRUE(Contains(Refusal("a 1 2\n\nb 1\n"), "vectors:3",
                       "expected 2 numbers, as in the previous lines, found", "found 1"));
  EXPECT_TRUE(Contains(Refusal("a b 1\n"), "vectors:1", "'b' is not a number"));
  EXPECT_TRUE(Contains(Refusal("1 2\nalone\n"), "vectors:2", "a token without numbers"));
  EXPECT_TRUE(Contains(Refusal("1 1e99\n"), "'1e99' is not a number"));
  EXPECT_TRUE(Contains(Refusal(" \n"), "it is empty"));
  EXPECT_TRUE(Contains(Refusal("[]"), "it is empty"));
  EXPECT_TRUE(Contains(Refusal("[[1], 2]"), "expected arrays of numbers, found 2"));
  EXPECT_TRUE(Contains(Refusal("[[1], [\"a\"]]"), "expected a number, found \"a\""));
  EXPECT_TRUE(Contains(Refusal("[[1], [1e99]]"), "expected a number, found 1e+99"));
  EXPECT_TRUE(Contains(Refusal("[[1], [1, 2]]"),
                       "expected 1 numbers, as in the previous lines, found", "found 2"));
  EXPECT_TRUE(Contains(Refusal("[[1], "), "vectors:1:"));
  EXPECT_TRUE(Contains(Refusal("a\xff 1"), "not UTF-8"));
  std::string many;
  for (int i = 0; i < 65; ++i) many += "1\n";
  EXPECT_TRUE(Contains(Refusal(many), "vectors:65", "at most 64 tokens"));
}

TEST(AttentionOnTokensOfOnesOwn, ComputesWithThem) {
  const auto backend = MakeReferenceBackend();
  const TokenVectors two = {{"cold", "warm"}, {1, 0, 1, 1}};
  const Report walk =
      ExplainAttention(*backend, AttentionTopic{.form = "no-weights", .vectors = two});
  EXPECT_TRUE(Contains(walk.intro, "Your tokens: 2"));
  const std::string text = ReportText(walk, {.utf8 = true, .width = 100});
  const std::string share = fmt::format("{:.4f}", std::exp(2) / (std::exp(1) + std::exp(2)));
  EXPECT_TRUE(Contains(text, "s[warm, warm] = 1·1 + 1·1 = 2.0000", "context of “warm”", share));
  EXPECT_EQ(text.find("journey"), std::string::npos);
}

// Sizes at which a form could exceed its bounds.
TEST(AttentionOnTokensOfOnesOwn, TakesAnySize) {
  const auto backend = MakeCpuBackend();
  for (const size_t T : {1, 2, 3, 9}) {
    for (const size_t C : {1, 2, 8}) {
      TokenVectors vectors;
      for (size_t t = 0; t < T; ++t) vectors.labels.push_back("<&\"" + std::to_string(t));
      for (size_t i = 0; i < T * C; ++i) vectors.numbers.push_back(static_cast<float>(i % 5) / 4);
      const Report walk = ExplainAttention(*backend, AttentionTopic{.vectors = vectors});
      const std::string text = ReportText(walk, {.utf8 = true});
      EXPECT_EQ(text.find("journey"), std::string::npos) << T << " tokens of " << C;
      EXPECT_EQ(text.find("step”"), std::string::npos) << T << " tokens of " << C;
      EXPECT_FALSE(ReportHtml(walk).empty());
    }
  }
}

}  // namespace

}  // namespace folio
