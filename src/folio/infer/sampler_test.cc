#include "folio/infer/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "folio/base/rng.h"
#include "folio/infer/token_probabilities.h"
#include "tests/kit/expect.h"
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

std::vector<int32_t> CandidateIds(const SamplingOptions& options,
                                  const std::vector<float>& logits) {
  Sampler sampler(options);
  std::vector<int32_t> ids;
  for (const Candidate& c : sampler.Candidates(logits)) ids.push_back(c.id);
  return ids;
}

using Order = std::vector<int32_t>;

// Removes those for which `gone` holds, and lets the others' probabilities add up to 1.
template <class Gone>
void Remove(std::vector<Candidate>& all, const Gone& gone) {
  std::erase_if(all, gone);
  double sum = 0;
  for (const Candidate& c : all) sum += c.probability;
  for (Candidate& c : all) c.probability /= sum;
}

// The least number of `all`, from the front, whose probabilities reach `mass`.
size_t Reaching(const std::vector<Candidate>& all, double mass) {
  double sum = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    sum += all[i].probability;
    if (sum >= mass) return i + 1;
  }
  return all.size();
}

// Returns by id the probabilities of the tokens that the cuts leave as they are defined, with
// everything sorted.
std::map<int32_t, double> Defined(const SamplingOptions& options,
                                  const std::vector<float>& logits) {
  std::vector<Candidate> all;
  const double largest = *std::ranges::max_element(logits);
  for (size_t i = 0; i < logits.size(); ++i) {
    all.push_back({static_cast<int32_t>(i), logits[i],
                   std::exp((logits[i] - largest) / options.temperature)});
  }
  std::ranges::stable_sort(all, std::greater<>(), &Candidate::logit);
  const size_t k = options.top_k == 0 ? all.size() : static_cast<size_t>(options.top_k);
  const float least = all[std::min(k, all.size()) - 1].logit;
  Remove(all, [&](const Candidate& c) { return c.logit < least; });
  if (options.top_p < 1) {
    all.resize(Reaching(all, options.top_p));
    Remove(all, [](const Candidate&) { return false; });
  }
  const double most = all.front().probability;
  Remove(all, [&](const Candidate& c) { return c.probability < options.min_p * most; });
  if (options.typical < 1) {
    double entropy = 0;
    for (const Candidate& c : all) {
      if (c.probability > 0) entropy -= c.probability * std::log(c.probability);
    }
    const auto distance = [&](const Candidate& c) {
      return std::abs(-std::log(c.probability) - entropy);
    };
    std::ranges::stable_sort(all, std::less<>(), distance);
    const double last = distance(all[Reaching(all, options.typical) - 1]);
    Remove(all, [&](const Candidate& c) { return distance(c) > last; });
  }
  std::map<int32_t, double> kept;
  for (const Candidate& c : all) kept[c.id] = c.probability;
  return kept;
}

TEST(Candidates, AreSoftmaxLikeliestFirst) {
  const std::vector<float> logits = Logits({0.1, 0.4, 0.2, 0.3});
  EXPECT_EQ(CandidateIds({}, logits), (Order{1, 3, 2, 0}));
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
  EXPECT_EQ(CandidateIds({.top_k = 2}, logits), (Order{1, 3}));
  EXPECT_NEAR(Kept({.top_k = 2}, logits).at(1), 4.0 / 7, kFloat32Once);
  EXPECT_EQ(CandidateIds({.top_k = 1}, logits), (Order{1}));
  EXPECT_EQ(CandidateIds({.top_k = 4}, logits).size(), 4u);
  EXPECT_EQ(CandidateIds({.top_k = 99}, logits).size(), 4u);
}

TEST(Candidates, TopPKeepsWhatReachesIt) {
  const std::vector<float> logits = Logits({0.1, 0.4, 0.2, 0.3});
  EXPECT_EQ(CandidateIds({.top_p = 0.39}, logits), (Order{1}));
  EXPECT_EQ(CandidateIds({.top_p = 0.41}, logits), (Order{1, 3}));
  EXPECT_EQ(CandidateIds({.top_p = 0.69}, logits), (Order{1, 3}));
  EXPECT_EQ(CandidateIds({.top_p = 0.71}, logits), (Order{1, 3, 2}));
  EXPECT_EQ(CandidateIds({.top_p = 1}, logits).size(), 4u);
  EXPECT_EQ(CandidateIds({.top_p = 1e-12}, logits), (Order{1}));
  EXPECT_EQ(Kept({.top_p = 1e-300}, logits).at(1), 1);
}

// top_p counts probabilities after the temperature and after top_k.
TEST(Candidates, CutsComeInTheirOrder) {
  const std::vector<float> logits = Logits({0.5, 0.3, 0.2});
  // At temperature 1/2: 25/38 = 0.66, 9/38, 4/38.
  EXPECT_EQ(CandidateIds({.top_p = 0.6}, logits), (Order{0, 1}));
  EXPECT_EQ(CandidateIds({.temperature = 0.5, .top_p = 0.6}, logits), (Order{0}));
  // The first of the two likeliest has 0.625.
  EXPECT_EQ(CandidateIds({.top_k = 2, .top_p = 0.6}, logits), (Order{0}));
  // Among three at temperature 1/2: 0.66; among two: 25/34 = 0.735.
  EXPECT_EQ(CandidateIds({.temperature = 0.5, .top_p = 0.7}, logits), (Order{0, 1}));
  EXPECT_EQ(CandidateIds({.temperature = 0.5, .top_k = 2, .top_p = 0.7}, logits), (Order{0}));
}

TEST(Candidates, EqualsGoByLowestId) {
  const std::vector<float> logits = {1, 2, 2, 1, 2, 0};
  EXPECT_EQ(CandidateIds({}, logits), (Order{1, 2, 4, 0, 3, 5}));
  EXPECT_EQ(CandidateIds({.top_k = 3}, logits), (Order{1, 2, 4}));
  EXPECT_EQ(CandidateIds({.temperature = 0}, logits), (Order{1}));
}

TEST(Candidates, TopKKeepsEqualsOfTheLastOne) {
  const std::vector<float> logits = {1, 2, 2, 1, 2, 0};
  EXPECT_EQ(CandidateIds({.top_k = 1}, logits), (Order{1, 2, 4}));
  EXPECT_EQ(CandidateIds({.top_k = 2}, logits), (Order{1, 2, 4}));
  EXPECT_EQ(CandidateIds({.top_k = 4}, logits), (Order{1, 2, 4, 0, 3}));
  EXPECT_EQ(CandidateIds({.temperature = 0, .top_k = 2}, logits), (Order{1}));
  EXPECT_NEAR(Kept({.top_k = 2}, logits).at(4), 1.0 / 3, kFloat64Chain);
}

TEST(Candidates, ImpossibleTokensAreNeverKept) {
  const std::vector<float> logits = Logits({0, 0.75, 0, 0.25, 0});
  for (const SamplingOptions& options :
       {SamplingOptions{}, {.temperature = 3}, {.top_k = 4}, {.top_k = 5, .top_p = 1}}) {
    EXPECT_EQ(CandidateIds(options, logits), (Order{1, 3}));
  }
  EXPECT_EQ(CandidateIds({.temperature = 0}, {kNever, kNever, 3}), (Order{2}));
}

TEST(Candidates, HugeLogitsDoNotOverflow) {
  EXPECT_NEAR(Kept({}, {3e38f, 3e38f, -3e38f}).at(0), 0.5, kFloat64Chain);
}

std::vector<int32_t> Draws(uint64_t seed, uint64_t rng_stream) {
  Sampler sampler({.seed = seed});
  std::vector<int32_t> ids;
  for (uint64_t position = 0; position < 40; ++position) {
    ids.push_back(sampler.Sample(Logits({0.2, 0.3, 0.5}), rng_stream, position));
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

// Pearson's chi-square of many draws against what the definition of `defined` says, and infinity
// where a token was drawn that it cuts.
double ChiSquare(const SamplingOptions& options, const std::vector<float>& logits,
                 const SamplingOptions& defined) {
  constexpr int kDraws = 40000;
  Sampler sampler(options);
  std::map<int32_t, int> counts;
  for (uint64_t i = 0; i < kDraws; ++i) ++counts[sampler.Sample(logits, i % 7, i / 7)];
  double sum = 0;
  for (const auto& [id, probability] : Defined(defined, logits)) {
    if (probability == 0) continue;
    const double e = probability * kDraws, difference = counts[id] - e;
    sum += difference * difference / e;
    counts.erase(id);
  }
  for (const auto& [id, count] : counts) {
    if (count > 0) return std::numeric_limits<double>::infinity();
  }
  return sum;
}

// The 99.9 % points of chi-square with 6 degrees of freedom, the most of seven tokens; the seeds
// are fixed. A sampler with slightly other settings is far above it.
constexpr double kChiSquare = 22.46;

const std::vector<float> kSeven = Logits({0.02, 0.3, 0.06, 0.16, 0.25, 0.05, 0.16});

TEST(Sampler, FrequenciesAreTheProbabilitiesThatEachCutDefines) {
  const std::vector<std::pair<SamplingOptions, SamplingOptions>> pairs = {
      {{.seed = 11}, {.temperature = 1.05}},
      {{.temperature = 0.7, .seed = 12}, {.temperature = 0.66}},
      {{.temperature = 0}, {.temperature = 0.001}},
      {{.top_k = 3, .seed = 13}, {.top_k = 2}},  // and the equal of the third
      {{.top_p = 0.6, .seed = 14}, {.top_p = 0.5}},
      {{.min_p = 0.19, .seed = 15}, {.min_p = 0.21}},
      {{.typical = 0.5, .seed = 16}, {.typical = 0.2}},
      {{.temperature = 1.5, .top_k = 6, .top_p = 0.9, .min_p = 0.3, .typical = 0.8, .seed = 17},
       {.temperature = 1.5, .top_k = 6, .top_p = 0.9, .min_p = 0.3}},
  };
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto& [options, other] = pairs[i];
    if (options.temperature == 0) {
      EXPECT_LT(ChiSquare(options, kSeven, other), 1e-9);
      continue;
    }
    EXPECT_LT(ChiSquare(options, kSeven, options), kChiSquare) << i;
    EXPECT_GT(ChiSquare(options, kSeven, other), kChiSquare) << i;
  }
}

TEST(Candidates, MinPKeepsWhatIsNotFarBelowTheLikeliest) {
  const std::vector<float> logits = Logits({0.1, 0.4, 0.2, 0.3});
  EXPECT_EQ(CandidateIds({.min_p = 0.24}, logits), (Order{1, 3, 2, 0}));
  EXPECT_EQ(CandidateIds({.min_p = 0.26}, logits), (Order{1, 3, 2}));
  EXPECT_EQ(CandidateIds({.min_p = 0.74}, logits), (Order{1, 3}));
  EXPECT_EQ(CandidateIds({.min_p = 0.76}, logits), (Order{1}));
  EXPECT_EQ(CandidateIds({.min_p = 1}, {2, 3, 3}), (Order{1, 2}));
  EXPECT_NEAR(Kept({.min_p = 0.6}, logits).at(1), 4.0 / 7, kFloat32Once);
  // At temperature 2 the ratios are square roots: 0.1 of 0.4 has a half.
  EXPECT_EQ(CandidateIds({.temperature = 2, .min_p = 0.49}, logits).size(), 4u);
}

// H = -(0.5 ln 0.5 + 0.3 ln 0.3 + 0.15 ln 0.15 + 0.05 ln 0.05) = 1.142; -ln p =
// 0.693, 1.204, 1.897, 2.996: distances 0.449, 0.062, 0.755, 1.854.
TEST(Candidates, TypicalKeepsWhatTellsAsMuchAsExpected) {
  const std::vector<float> logits = Logits({0.5, 0.3, 0.15, 0.05});
  EXPECT_EQ(CandidateIds({.typical = 0.29}, logits), (Order{1}));
  EXPECT_EQ(CandidateIds({.typical = 0.31}, logits), (Order{0, 1}));
  EXPECT_EQ(CandidateIds({.typical = 0.79}, logits), (Order{0, 1}));
  EXPECT_EQ(CandidateIds({.typical = 0.81}, logits), (Order{0, 1, 2}));
  EXPECT_EQ(CandidateIds({.typical = 0.96}, logits).size(), 4u);
  EXPECT_NEAR(Kept({.typical = 0.31}, logits).at(1), 3.0 / 8, kFloat32Once);
  EXPECT_EQ(CandidateIds({.typical = 0.1}, {1, 1, 1}).size(), 3u) << "equals of the last one stay";
}

// Vocabularies beyond the first step of sorting, with equals.
TEST(Candidates, AreWhatSortingAllOfThemGives) {
  std::vector<float> logits;
  const CounterRng rng(7, 1);
  for (uint64_t i = 0; i < 3001; ++i) {
    logits.push_back(static_cast<float>(std::round(30 * rng.Normal(i)) / 10));
  }
  for (const SamplingOptions& options :
       std::vector<SamplingOptions>{{},
                                    {.temperature = 0.8, .top_k = 40},
                                    {.top_k = 1},
                                    {.top_k = 2},
                                    {.top_k = 46},
                                    {.top_k = 47},
                                    {.top_k = 65},
                                    {.top_k = 3000},
                                    {.top_k = 9000},
                                    {.temperature = 1.3, .top_p = 0.9},
                                    {.temperature = 5, .top_p = 0.99},
                                    {.min_p = 0.02},
                                    {.top_k = 500, .min_p = 0.05},
                                    {.top_p = 0.8, .min_p = 0.03},
                                    {.typical = 0.9},
                                    {.top_p = 0.95, .typical = 0.3},
                                    {.top_k = 200, .top_p = 0.9, .min_p = 0.01, .typical = 0.7}}) {
    const auto kept = Kept(options, logits), defined = Defined(options, logits);
    ASSERT_EQ(kept.size(), defined.size());
    for (const auto& [id, probability] : defined) {
      ASSERT_TRUE(kept.contains(id));
      EXPECT_NEAR(kept.at(id), probability, kFloat64Chain);
    }
    const Order order = CandidateIds(options, logits);
    EXPECT_TRUE(std::ranges::is_sorted(order, [&](int32_t a, int32_t b) {
      const float of_a = logits[size_t(a)], of_b = logits[size_t(b)];
      return of_a != of_b ? of_a > of_b : a < b;
    }));
    // A draw finds its token among the candidates laid side by side.
    Sampler sampler(options);
    for (uint64_t position = 0; position < 50; ++position) {
      double left = CounterRng(0, RngStream(RngPurpose::kSampling, 3)).Uniform(position);
      const int32_t drawn = sampler.Sample(logits, 3, position);
      for (const int32_t id : order) {
        left -= kept.at(id);
        if (left >= 0) continue;
        EXPECT_EQ(drawn, id);
        break;
      }
    }
  }
}

TEST(Sampler, SaysWithWhatChanceItChose) {
  const std::vector<float> logits = Logits({0.4, 0.3, 0.2, 0.1});
  for (const SamplingOptions& options : std::vector<SamplingOptions>{
           {}, {.temperature = 0}, {.temperature = 0.5}, {.top_k = 2}, {.top_p = 0.6}}) {
    const std::map<int32_t, double> kept = Kept(options, logits);
    Sampler sampler(options);
    for (uint64_t position = 0; position < 50; ++position) {
      const int32_t id = sampler.Sample(logits, 0, position);
      EXPECT_NEAR(sampler.chance(), kept.at(id), kFloat64Chain);
    }
  }
}

TEST(Sampler, AnInfiniteLogitIsCertain) {
  const float infinite = std::numeric_limits<float>::infinity();
  const std::vector<float> logits = {3, infinite, -infinite, 2};
  Sampler sampler(SamplingOptions{});
  for (uint64_t position = 0; position < 20; ++position) {
    EXPECT_EQ(sampler.Sample(logits, 0, position), 1);
    EXPECT_EQ(sampler.chance(), 1);
  }
}

TEST(Sampler, BannedTokensAreNeverChosenAndForcedOnesAlways) {
  const std::vector<float> logits = Logits({0.4, 0.1, 0.3, 0.2});
  EXPECT_EQ(CandidateIds({.banned = {0, 3, 0}}, logits), (Order{2, 1}));
  EXPECT_EQ(CandidateIds({.temperature = 0, .banned = {0}}, logits), (Order{2}));
  Sampler usable({.banned = {2}}, {false, true, true, true});
  EXPECT_EQ(usable.Candidates(logits).size(), 2u);
  const SamplingOptions forcing{.top_k = 1, .banned = {3}, .forced = {1, 3}};
  Sampler forced(forcing);
  EXPECT_EQ(forced.Sample(logits, 0, 0), 1);
  EXPECT_EQ(forced.Candidates(logits)[0].probability, 1);
  const Order text = {2, 1, 3};
  EXPECT_EQ(forced.Sample(logits, 0, 1, {.tokens = std::span(text).first(2), .prompt_tokens = 1}),
            3);
  EXPECT_EQ(forced.Sample(logits, 0, 2, {.tokens = text, .prompt_tokens = 1}), 0);
}

TEST(Sampler, SaysWhenNoTokenIsLeft) {
  const auto sample = [](const SamplingOptions& options, const std::vector<float>& logits) {
    return ErrorOf([&] { Sampler(options).Sample(logits, 0, 0); }, ErrorKind::kUsage);
  };
  EXPECT_TRUE(Contains(sample({.banned = {0, 1}}, Logits({0.5, 0.5})), "no token is allowed next"));
  EXPECT_TRUE(Contains(sample({.temperature = 0}, {kNever}), "no token is allowed next"));
}

TEST(Sampler, PenaltiesComeBeforeTheCuts) {
  const std::vector<float> logits = {2, 1, 0};
  const SamplingOptions biased{.temperature = 0, .penalties = {.bias = {{2, 3}}}};
  EXPECT_EQ(
      CandidateIds(SamplingOptions{.top_k = 1, .penalties = biased.penalties}, {0, 1, -1}).at(0),
      2);
  EXPECT_EQ(Sampler(biased).Sample(logits, 0, 0), 2) << "greedy too";
  const Order text = {0};
  Sampler halved({.top_k = 1, .penalties = {.repetition = 3}});
  EXPECT_EQ(halved.Sample(logits, 0, 0, {.tokens = text, .prompt_tokens = 1}), 1);
}

TEST(Sampling, IdsMustBeTheModels) {
  CheckSampling({.penalties = {.bias = {{4, 1}}}, .banned = {0}, .forced = {4}}, 5);
  for (const SamplingOptions& wrong : std::vector<SamplingOptions>{
           {.penalties = {.bias = {{5, 1}}}}, {.banned = {-1}}, {.forced = {5}}}) {
    EXPECT_TRUE(Contains(ErrorOf([&] { CheckSampling(wrong, 5); }, ErrorKind::kUsage),
                         "the model has no token", "0 to 4"));
  }
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

constexpr float kNone = -std::numeric_limits<float>::infinity();

// Changed logits after these tokens, of which the first `prompt_tokens` are the prompt.
std::vector<float> Changed(const PenaltyOptions& options, const std::vector<float>& logits,
                           const std::vector<int32_t>& tokens, size_t prompt_tokens,
                           const std::vector<int32_t>& ends = {}) {
  Penalties penalties(options, ends);
  const TokenHistory text{.tokens = tokens, .prompt_tokens = prompt_tokens};
  const auto first = penalties.Apply(logits, text);
  const std::vector<float> changed(first.begin(), first.end());
  const auto again = penalties.Apply(logits, text);
  EXPECT_EQ(std::vector<float>(again.begin(), again.end()), changed) << "calls leave nothing";
  return changed;
}

using Floats = std::vector<float>;

TEST(Penalties, WithoutAnyTheLogitsAreLeftAlone) {
  const Floats logits = {1, -2, 3};
  Penalties none({});
  EXPECT_EQ(none.Apply(logits, {}).data(), logits.data());
}

TEST(Penalties, BiasIsAdded) {
  EXPECT_EQ(Changed({.bias = {{0, 2.5}, {2, -1}, {0, 1}}}, {1, -2, 3, 4}, {}, 0),
            (Floats{4.5, -2, 2, 4}));
}

TEST(Penalties, RepetitionMakesWhatWasThereLessLikelyWhateverItsSign) {
  // 0 and 1 are in the prompt, 3 and 1 were written; how often does not count.
  EXPECT_EQ(Changed({.repetition = 2}, {3, -2, 5, 0.5, 0}, {0, 1, 0, 3, 1}, 3),
            (Floats{1.5, -4, 5, 0.25, 0}));
  EXPECT_EQ(Changed({.repetition = 0.5}, {3, -2, 5}, {0, 1}, 0), (Floats{6, -1, 5}));
}

TEST(Penalties, PresenceAndFrequencyCountWhatWasWrittenAlone) {
  const std::vector<int32_t> tokens = {0, 2, 1, 2, 2};  // the prompt has 0 and 2
  EXPECT_EQ(Changed({.presence = 0.5}, {1, 1, 1, 1}, tokens, 2), (Floats{1, 0.5, 0.5, 1}));
  EXPECT_EQ(Changed({.frequency = 0.25}, {1, 1, 1, 1}, tokens, 2), (Floats{1, 0.75, 0.5, 1}));
  EXPECT_EQ(Changed({.presence = -1, .frequency = 2}, {1, 1, 1, 1}, tokens, 2),
            (Floats{1, 0, -2, 1}));
}

// A bias counts before repetition decides by the sign, and that before presence and frequency.
TEST(Penalties, ComeInTheirOrder) {
  EXPECT_EQ(Changed({.bias = {{0, -3}}, .repetition = 2, .presence = 1, .frequency = 1}, {2, 2},
                    {1, 0}, 1),
            (Floats{-4, 1}));
}

TEST(Penalties, NoSequenceComesTwice) {
  const Floats logits = {1, 1, 1, 1};
  // 1 2 was followed by 3 and by 0, in prompt and text.
  EXPECT_EQ(Changed({.no_repeat_ngram = 3}, logits, {1, 2, 3, 1, 2, 0, 1, 2}, 4),
            (Floats{kNone, 1, 1, kNone}));
  EXPECT_EQ(Changed({.no_repeat_ngram = 2}, logits, {1, 2, 3, 1}, 0), (Floats{1, 1, kNone, 1}));
  EXPECT_EQ(Changed({.no_repeat_ngram = 2}, logits, {1, 1}, 0), (Floats{1, kNone, 1, 1}));
  EXPECT_EQ(Changed({.no_repeat_ngram = 1}, logits, {3, 0}, 1), (Floats{kNone, 1, 1, kNone}));
  EXPECT_EQ(Changed({.no_repeat_ngram = 3}, logits, {1, 2}, 2), logits) << "too short for one";
  EXPECT_EQ(Changed({.no_repeat_ngram = 9}, logits, {}, 0), logits);
}

TEST(Penalties, TheEndsMayNotComeTooEarly) {
  const Floats logits = {1, 1, 1};
  const PenaltyOptions two{.min_tokens = 2};
  EXPECT_EQ(Changed(two, logits, {0, 0, 0}, 3, {1, 7}), (Floats{1, kNone, 1}));
  EXPECT_EQ(Changed(two, logits, {0, 0, 0}, 2, {1, 2}), (Floats{1, kNone, kNone}));
  EXPECT_EQ(Changed(two, logits, {0, 0, 0}, 1, {1, 2}), logits);
}

}  // namespace

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
  const ModelProbabilities found = ProbabilitiesOf(logits, 17, 3);
  EXPECT_EQ(found.rank, RankOf(logits, 17));
  EXPECT_EQ(found.entropy, Summarize(logits).entropy);
  EXPECT_NEAR(found.log_probability, logits[17] - LogSum(logits), kFloat64Chain);
  EXPECT_EQ(IdsOf(found.likeliest), IdsOf(TopTokens(logits, 3)));
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
