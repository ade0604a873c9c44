#include "folio/infer/token_probabilities.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "folio/base/rng.h"
#include "tests/kit/near.h"

namespace folio {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();

std::vector<int32_t> IdsOf(const std::vector<TokenProbability>& top) {
  std::vector<int32_t> ids;
  for (const TokenProbability& token : top) ids.push_back(token.id);
  return ids;
}

std::vector<float> RandomLogits(size_t count) {
  std::vector<float> logits;
  const CounterRng rng(3, 1);
  for (size_t i = 0; i < count; ++i) logits.push_back(static_cast<float>(3 * rng.Normal(i)));
  return logits;
}

TEST(LogitSummaries, OfAFewNumbers) {
  const std::vector<float> logits = {0, std::log(2.0f), 0, -kInfinite};
  const LogitSummary summary = Summarize(logits);
  EXPECT_NEAR(summary.log_sum, std::log(4.0), kFloat32Once);
  EXPECT_NEAR(summary.entropy, 0.5 * std::log(2.0) + 2 * 0.25 * std::log(4.0), kFloat32Once);
}

TEST(LogitSummaries, DoNotOverflow) {
  const std::vector<float> logits = {1e30f, 1e30f, -1e30f};
  EXPECT_NEAR(Summarize(logits).entropy, std::log(2.0), kFloat64Chain);
  const std::vector<float> large = {1000, 999};
  EXPECT_NEAR(Summarize(large).log_sum, 1000 + std::log1p(std::exp(-1.0)), kFloat64Chain);
  EXPECT_EQ(Summarize(std::vector<float>{-5}).log_sum, -5);
  EXPECT_EQ(Summarize(std::vector<float>{-5}).entropy, 0);
}

TEST(TopTokens, AreTheLikeliestInOrder) {
  const std::vector<float> logits = {1, 3, 2, 3, -1, 2};
  EXPECT_EQ(IdsOf(TopTokens(logits, 4)), (std::vector<int32_t>{1, 3, 2, 5}));
  EXPECT_EQ(IdsOf(TopTokens(logits, 1)), (std::vector<int32_t>{1}));
  EXPECT_EQ(IdsOf(TopTokens(logits, 3)), (std::vector<int32_t>{1, 3, 2}));
  EXPECT_EQ(IdsOf(TopTokens(logits, 9)), (std::vector<int32_t>{1, 3, 2, 5, 0, 4}));
  EXPECT_TRUE(TopTokens(logits, 0).empty());
  EXPECT_TRUE(TopTokens(logits, -1).empty());
}

TEST(TopTokens, AgreeWithSortingAllOfThem) {
  const std::vector<float> logits = RandomLogits(1009);
  std::vector<int32_t> sorted(logits.size());
  for (size_t i = 0; i < sorted.size(); ++i) sorted[i] = static_cast<int32_t>(i);
  std::sort(sorted.begin(), sorted.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  const std::vector<TokenProbability> top = TopTokens(logits, 17);
  EXPECT_EQ(IdsOf(top), std::vector<int32_t>(sorted.begin(), sorted.begin() + 17));
  for (const TokenProbability& token : top) {
    const double logit = logits[static_cast<size_t>(token.id)];
    EXPECT_NEAR(token.probability, std::exp(logit) / sum, 1e-14);
    EXPECT_NEAR(token.log_probability, logit - std::log(sum), 1e-14);
    EXPECT_EQ(RankOf(logits, token.id), &token - top.data());
  }
}

TEST(ModelProbabilities, SayWhatTheRowSays) {
  const std::vector<float> logits = RandomLogits(101);
  const ModelProbabilities of = ProbabilitiesOf(logits, 17, 3);
  EXPECT_EQ(of.rank, RankOf(logits, 17));
  EXPECT_EQ(of.entropy, Summarize(logits).entropy);
  EXPECT_NEAR(of.log_probability, logits[17] - LogSum(logits), kFloat64Chain);
  EXPECT_EQ(IdsOf(of.likeliest), IdsOf(TopTokens(logits, 3)));
}

TEST(TopTokens, WhatIsNoNumberComesLast) {
  const std::vector<float> logits = {NAN, 1, NAN, 2, -kInfinite};
  EXPECT_EQ(IdsOf(TopTokens(logits, 5)), (std::vector<int32_t>{3, 1, 0, 2, 4}));
  EXPECT_EQ(RankOf(logits, 3), 0);
  EXPECT_EQ(RankOf(logits, 2), 3);
}

TEST(Ranks, CountWhatIsLikelierAndEqualsOfLowerId) {
  const std::vector<float> logits = {1, 3, 2, 3, 1};
  const std::vector<int64_t> expected = {3, 0, 2, 1, 4};
  for (int32_t id = 0; id < 5; ++id) EXPECT_EQ(RankOf(logits, id), expected[size_t(id)]) << id;
}

TEST(LogSums, AreThoseOfTheSummary) {
  const std::vector<float> logits = RandomLogits(1009);
  EXPECT_EQ(LogSum(logits), Summarize(logits).log_sum);
  EXPECT_EQ(LogSum(std::vector<float>{-5}), -5);
}

TEST(LikeliestTokens, OfEqualsTheFirstAndNeverANaN) {
  EXPECT_EQ(LikeliestToken(std::vector<float>{1, 3, 2, 3}), 1);
  EXPECT_EQ(LikeliestToken(std::vector<float>{NAN, 1}), 1);
  EXPECT_EQ(LikeliestToken(std::vector<float>{-7}), 0);
}

TEST(Divergences, OfDistributionsByHand) {
  const auto kl = [](const std::vector<float>& p, const std::vector<float>& q) {
    return Divergence(p, LogSum(p), q, LogSum(q));
  };
  // (1/2, 1/2) and (3/4, 1/4).
  const std::vector<float> even = {2, 2}, uneven = {std::log(3.0f), 0};
  EXPECT_NEAR(kl(even, uneven), 0.5 * std::log(0.5 / 0.75) + 0.5 * std::log(0.5 / 0.25),
              kFloat32Once);
  EXPECT_NEAR(kl(uneven, even), 0.75 * std::log(1.5) + 0.25 * std::log(0.5), kFloat32Once);
  const std::vector<float> logits = RandomLogits(1009);
  EXPECT_EQ(kl(logits, logits), 0);
  std::vector<float> shifted = logits;
  for (float& x : shifted) x += 1024;
  EXPECT_NEAR(kl(logits, shifted), 0, 1e-4);
  EXPECT_GE(kl(logits, shifted), 0);
  EXPECT_EQ(kl({0, -kInfinite}, {0, 3}),
            std::log(1 + std::exp(3.0)));  // what never comes is not missed
}

}  // namespace
}  // namespace folio
