#include "folio/infer/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "tests/kit/near.h"

namespace folio {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Logits of these probabilities.
std::vector<float> Logits(std::initializer_list<double> probabilities) {
  std::vector<float> logits;
  for (double p : probabilities) {
    logits.push_back(p == 0 ? kNever : static_cast<float>(std::log(p)));
  }
  return logits;
}

// The candidates' probabilities by id.
std::map<int32_t, double> Kept(const SamplingOptions& options, const std::vector<float>& logits) {
  Sampler sampler(options);
  std::map<int32_t, double> kept;
  double sum = 0;
  for (const Candidate& c : sampler.Candidates(logits)) {
    EXPECT_EQ(c.logit, logits[static_cast<size_t>(c.id)]);
    EXPECT_TRUE(kept.emplace(c.id, c.probability).second);
    sum += c.probability;
  }
  EXPECT_NEAR(sum, 1, kFloat64Chain);
  return kept;
}

std::vector<int32_t> Ids(const SamplingOptions& options, const std::vector<float>& logits) {
  Sampler sampler(options);
  std::vector<int32_t> ids;
  for (const Candidate& c : sampler.Candidates(logits)) ids.push_back(c.id);
  return ids;
}

using Order = std::vector<int32_t>;

TEST(Candidates, AreSoftmaxLikeliestFirst) {
  const std::vector<float> logits = Logits({0.1, 0.4, 0.2, 0.3});
  EXPECT_EQ(Ids({}, logits), (Order{1, 3, 2, 0}));
  const auto kept = Kept({}, logits);
  EXPECT_NEAR(kept.at(0), 0.1, kFloat32Once);
  EXPECT_NEAR(kept.at(1), 0.4, kFloat32Once);
}

TEST(Candidates, TemperatureSharpensAndFlattens) {
  const std::vector<float> logits = Logits({0.8, 0.2});
  EXPECT_NEAR(Kept({.temperature = 0.5}, logits).at(0), 0.64 / 0.68, kFloat32Once);
  EXPECT_NEAR(Kept({.temperature = 2}, logits).at(0), 2.0 / 3, kFloat32Once);
  EXPECT_NEAR(Kept({.temperature = 1e9}, logits).at(0), 0.5, kFloat32Once);
  EXPECT_EQ(Kept({.temperature = 1e-300}, logits).at(0), 1);
}

TEST(Candidates, TopKKeepsTheLikeliest) {
  const std::vector<float> logits = Logits({0.1, 0.4, 0.2, 0.3});
  EXPECT_EQ(Ids({.top_k = 2}, logits), (Order{1, 3}));
  EXPECT_NEAR(Kept({.top_k = 2}, logits).at(1), 4.0 / 7, kFloat32Once);
  EXPECT_EQ(Ids({.top_k = 1}, logits), (Order{1}));
  EXPECT_EQ(Ids({.top_k = 4}, logits).size(), 4u);
  EXPECT_EQ(Ids({.top_k = 99}, logits).size(), 4u);
}

TEST(Candidates, TopPKeepsWhatReachesIt) {
  const std::vector<float> logits = Logits({0.1, 0.4, 0.2, 0.3});
  EXPECT_EQ(Ids({.top_p = 0.39}, logits), (Order{1}));
  EXPECT_EQ(Ids({.top_p = 0.41}, logits), (Order{1, 3}));
  EXPECT_EQ(Ids({.top_p = 0.69}, logits), (Order{1, 3}));
  EXPECT_EQ(Ids({.top_p = 0.71}, logits), (Order{1, 3, 2}));
  EXPECT_EQ(Ids({.top_p = 1}, logits).size(), 4u);
  EXPECT_EQ(Ids({.top_p = 1e-12}, logits), (Order{1}));
  EXPECT_EQ(Kept({.top_p = 1e-300}, logits).at(1), 1);
}

// top_p counts probabilities after the temperature and after top_k.
TEST(Candidates, CutsComeInTheirOrder) {
  const std::vector<float> logits = Logits({0.5, 0.3, 0.2});
  // At temperature 1/2: 25/38 = 0.66, 9/38, 4/38.
  EXPECT_EQ(Ids({.top_p = 0.6}, logits), (Order{0, 1}));
  EXPECT_EQ(Ids({.temperature = 0.5, .top_p = 0.6}, logits), (Order{0}));
  // Of the two likeliest the first has 0.625.
  EXPECT_EQ(Ids({.top_k = 2, .top_p = 0.6}, logits), (Order{0}));
  // Among three at temperature 1/2: 0.66; among two: 25/34 = 0.735.
  EXPECT_EQ(Ids({.temperature = 0.5, .top_p = 0.7}, logits), (Order{0, 1}));
  EXPECT_EQ(Ids({.temperature = 0.5, .top_k = 2, .top_p = 0.7}, logits), (Order{0}));
}

TEST(Candidates, EqualsGoByLowestId) {
  const std::vector<float> logits = {1, 2, 2, 1, 2, 0};
  EXPECT_EQ(Ids({}, logits), (Order{1, 2, 4, 0, 3, 5}));
  EXPECT_EQ(Ids({.top_k = 3}, logits), (Order{1, 2, 4}));
  EXPECT_EQ(Ids({.temperature = 0}, logits), (Order{1}));
}

TEST(Candidates, TopKKeepsEqualsOfTheLastOne) {
  const std::vector<float> logits = {1, 2, 2, 1, 2, 0};
  EXPECT_EQ(Ids({.top_k = 1}, logits), (Order{1, 2, 4}));
  EXPECT_EQ(Ids({.top_k = 2}, logits), (Order{1, 2, 4}));
  EXPECT_EQ(Ids({.top_k = 4}, logits), (Order{1, 2, 4, 0, 3}));
  EXPECT_EQ(Ids({.temperature = 0, .top_k = 2}, logits), (Order{1}));
  EXPECT_NEAR(Kept({.top_k = 2}, logits).at(4), 1.0 / 3, kFloat64Chain);
}

TEST(Candidates, ImpossibleTokensAreNeverKept) {
  const std::vector<float> logits = Logits({0, 0.75, 0, 0.25, 0});
  for (const SamplingOptions& options :
       {SamplingOptions{}, {.temperature = 3}, {.top_k = 4}, {.top_k = 5, .top_p = 1}}) {
    EXPECT_EQ(Ids(options, logits), (Order{1, 3}));
  }
  EXPECT_EQ(Ids({.temperature = 0}, {kNever, kNever, 3}), (Order{2}));
}

TEST(Candidates, HugeLogitsDoNotOverflow) {
  EXPECT_NEAR(Kept({}, {3e38f, 3e38f, -3e38f}).at(0), 0.5, kFloat64Chain);
}

TEST(Sampler, GreedyTakesTheLikeliestWhateverTheSeed) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Sampler sampler({.temperature = 0, .top_k = 3, .top_p = 0.5, .seed = seed});
    EXPECT_EQ(sampler.Sample(Logits({0.3, 0.36, 0.34}), seed, seed), 1);
  }
}

std::vector<int32_t> Draws(uint64_t seed, uint64_t sequence) {
  Sampler sampler({.seed = seed});
  std::vector<int32_t> ids;
  for (uint64_t position = 0; position < 40; ++position) {
    ids.push_back(sampler.Sample(Logits({0.2, 0.3, 0.5}), sequence, position));
  }
  return ids;
}

TEST(Sampler, DependsOnSeedSequenceAndPositionAlone) {
  EXPECT_EQ(Draws(1, 2), Draws(1, 2));
  EXPECT_NE(Draws(1, 2), Draws(2, 2));
  EXPECT_NE(Draws(1, 2), Draws(1, 3));
  Sampler one({.seed = 1});
  const std::vector<int32_t> in_order = Draws(1, 2);
  for (const uint64_t position : {31u, 7u, 0u}) {  // and not on what was drawn before
    EXPECT_EQ(one.Sample(Logits({0.2, 0.3, 0.5}), 2, position), in_order[position]);
  }
}

// Pearson's chi-square over many draws, against its 99.9 % point; the seed is fixed.
double ChiSquare(const SamplingOptions& options, const std::vector<float>& logits) {
  constexpr int kDraws = 40000;
  Sampler sampler(options);
  std::map<int32_t, int> counts;
  for (uint64_t i = 0; i < kDraws; ++i) ++counts[sampler.Sample(logits, i % 7, i / 7)];
  const auto expected = Kept(options, logits);
  double sum = 0;
  for (const auto& [id, probability] : expected) {
    const double e = probability * kDraws, difference = counts[id] - e;
    sum += difference * difference / e;
    counts.erase(id);
  }
  EXPECT_TRUE(counts.empty()) << "a token that was cut was drawn";
  return sum;
}

TEST(Sampler, FrequenciesAreTheProbabilities) {
  const std::vector<float> logits = Logits({0.02, 0.3, 0, 0.18, 0.25, 0.05, 0.2});
  EXPECT_LT(ChiSquare({.seed = 11}, logits), 20.5);                                    // 5 degrees
  EXPECT_LT(ChiSquare({.temperature = 0.7, .top_k = 4, .seed = 12}, logits), 16.3);    // 3
  EXPECT_LT(ChiSquare({.temperature = 1.5, .top_p = 0.6, .seed = 13}, logits), 16.3);  // at most 3
}

TEST(Candidates, AreAmongWhatMayBeChosen) {
  const std::vector<float> logits = Logits({0.4, 0.1, 0.3, 0.1, 0.1});
  const std::vector<bool> usable = {false, true, true, true};  // neither the first nor the last
  Sampler all({}, usable);
  const std::span<const Candidate> candidates = all.Candidates(logits);
  ASSERT_EQ(candidates.size(), 3u);
  EXPECT_EQ(candidates[0].id, 2);
  EXPECT_NEAR(candidates[0].probability, 0.6, kFloat32Once);
  EXPECT_EQ(Sampler({.temperature = 0}, usable).Sample(logits, 0, 0), 2);
  EXPECT_EQ(Sampler({.top_k = 1}, usable).Sample(logits, 0, 0), 2);
}

}  // namespace
}  // namespace folio
