#include "folio/infer/speculation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "folio/base/rng.h"
#include "folio/infer/token_probabilities.h"
#include "folio/model/gpt.h"
#include "folio/model/test_models.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

using Tokens = std::vector<int32_t>;

Tokens Proposed(Draft& draft, std::span<const int32_t> text, int64_t count) {
  Tokens ids = {99};  // which must go
  draft.Propose(text, count, ids);
  return ids;
}
Tokens Proposed(Draft& draft, const Tokens& text, int64_t count) {
  return Proposed(draft, std::span(text), count);
}

// By the definition, looking at all of the text.
Tokens LookedUp(std::span<const int32_t> text, int64_t count) {
  for (const size_t n : {3u, 2u}) {
    for (size_t end = text.size() - 1; text.size() > n && end >= n; --end) {
      if (!std::ranges::equal(text.first(end).last(n), text.last(n))) continue;
      Tokens whole(text.begin(), text.end());
      while (std::ssize(whole) < std::ssize(text) + count) {
        whole.push_back(whole[whole.size() - text.size() + end]);
      }
      return {whole.end() - count, whole.end()};
    }
  }
  return {};
}

TEST(NgramDraft, ProposesWhatFollowedTheEndOfTheText) {
  NgramDraft draft;
  EXPECT_EQ(Proposed(draft, {1, 2, 3, 4, 5, 6, 1, 2, 3}, 2), (Tokens{4, 5}));
  EXPECT_EQ(Proposed(draft, {1, 2, 3, 4, 9, 2, 3, 5, 1, 2, 3}, 2), (Tokens{4, 9}))
      << "three tokens before two, however long ago";
  EXPECT_EQ(Proposed(draft, {1, 2, 3, 1, 2, 4, 7, 1, 2}, 1), (Tokens{4})) << "the latest";
  EXPECT_EQ(Proposed(draft, {8, 2, 3, 5, 6, 7, 2, 3}, 2), (Tokens{5, 6})) << "or two";
  EXPECT_EQ(Proposed(draft, {1, 2, 3, 4, 3}, 4), Tokens()) << "one is too little";
  EXPECT_EQ(Proposed(draft, {1, 2, 3, 4, 5}, 4), Tokens());
}

TEST(NgramDraft, GoesRoundInACircle) {
  NgramDraft draft;
  EXPECT_EQ(Proposed(draft, {7, 7, 7}, 4), (Tokens{7, 7, 7, 7}));
  EXPECT_EQ(Proposed(draft, {1, 2, 3, 1, 2, 3, 1, 2}, 7), (Tokens{3, 1, 2, 3, 1, 2, 3}));
}

TEST(NgramDraft, HasNothingToSayToShortTextsAndNoTokens) {
  NgramDraft draft;
  EXPECT_EQ(Proposed(draft, Tokens(), 4), Tokens());
  EXPECT_EQ(Proposed(draft, {1}, 4), Tokens());
  EXPECT_EQ(Proposed(draft, {1, 1}, 4), Tokens());
  EXPECT_EQ(Proposed(draft, {1, 1, 1}, 0), Tokens());
  EXPECT_EQ(Proposed(draft, {1, 1, 1}, -1), Tokens());
}

TEST(NgramDraft, EqualsTheDefinitionWhileATextGrows) {
  NgramDraft draft;
  const Tokens text = RandomTokens(600, 7, 3);
  int64_t some = 0;
  for (size_t size = 1; size <= text.size(); ++size) {
    const auto so_far = std::span(text).first(size);
    const Tokens ids = Proposed(draft, so_far, 4);
    ASSERT_EQ(ids, LookedUp(so_far, 4)) << size;
    some += !ids.empty();
  }
  EXPECT_GT(some, 400);
}

TEST(NgramDraft, TheTextMayGoBackOrBeAnother) {
  NgramDraft draft;
  const Tokens one = RandomTokens(300, 6, 3), two = RandomTokens(300, 6, 4);
  const CounterRng rng(5, 6);
  for (uint64_t i = 0; i < 300; ++i) {
    const Tokens& text = rng.Below(2 * i, 4) == 0 ? two : one;
    const auto so_far = std::span(text).first(1 + rng.Below(2 * i + 1, 300));
    ASSERT_EQ(Proposed(draft, so_far, 5), LookedUp(so_far, 5)) << i;
  }
}

// The last tokens of what it read are the same, and so it takes them for one text.
TEST(NgramDraft, WhatItProposesStandsInTheTextThatItIsGiven) {
  const Tokens middle = RandomTokens(40, 1000, 1);
  Tokens one = {1, 2, 3, 4}, two = {5, 1, 2, 6};
  for (Tokens* text : {&one, &two}) text->insert(text->end(), middle.begin(), middle.end());
  for (const Tokens& end : {Tokens{1, 2, 3}, Tokens{2, 3}, Tokens{5, 1, 2}}) {
    NgramDraft draft;
    Proposed(draft, one, 3);
    Tokens text = two;
    text.insert(text.end(), end.begin(), end.end());
    const Tokens ids = Proposed(draft, text, 3), right = LookedUp(text, 3);
    EXPECT_TRUE(ids.empty() || ids == right);
  }
}

class ModelDrafting : public testing::Test {
 protected:
  void Make(int64_t P) {
    config_ = TinyConfig();
    config_.n_positions = P;
    weights_ = std::make_unique<GptWeights>(config_);
    Scatter(*weights_, 1);
    draft_ = std::make_unique<ModelDraft>(*backend_, *weights_, config_.vocab_size);
  }

  // The likeliest tokens behind what the model is to see, all of it read for each.
  Tokens Greedy(std::span<const int32_t> seen, int64_t count) {
    Tokens text(seen.begin(), seen.end());
    for (int64_t i = 0; i < count; ++i) {
      const int64_t T = std::ssize(text), V = config_.vocab_size;
      GptPass pass(*backend_, config_, 1, T, PassKind::kForward);
      pass.Forward(weights_->params(), text);
      std::vector<float> row(static_cast<size_t>(V));
      pass.Logits(weights_->params(), T - 1, T, Tensor(row.data(), Dtype::kF32, {1, V}));
      text.push_back(LikeliestToken(row));
    }
    return {text.begin() + std::ssize(seen), text.end()};
  }

  GptConfig config_;
  std::unique_ptr<Backend> backend_ = MakeBackend("cpu");
  std::unique_ptr<GptWeights> weights_;
  std::unique_ptr<ModelDraft> draft_;
};

TEST_F(ModelDrafting, ProposesTheLikeliestTokens) {
  Make(30);
  Tokens text = RandomTokens(3, config_.vocab_size, 2);
  EXPECT_EQ(Proposed(*draft_, text, 5), Greedy(text, 5));
  const Tokens likely = Greedy(text, 2);
  text.insert(text.end(), likely.begin(), likely.end());
  EXPECT_EQ(Proposed(*draft_, text, 5), Greedy(text, 5)) << "its own were taken";
  text.push_back((Greedy(text, 1)[0] + 1) % 11);
  EXPECT_EQ(Proposed(*draft_, text, 5), Greedy(text, 5)) << "another was";
  EXPECT_EQ(Proposed(*draft_, text, 1), Greedy(text, 1)) << "the same again";
}

TEST_F(ModelDrafting, SaysNothingWhereNothingIsWantedOrThere) {
  Make(8);
  EXPECT_EQ(Proposed(*draft_, {1, 2}, 0), Tokens());
  EXPECT_EQ(Proposed(*draft_, Tokens(), 3), Tokens());
  EXPECT_EQ(Proposed(*draft_, {1, 2}, 3), Greedy(Tokens{1, 2}, 3));
}

TEST_F(ModelDrafting, TheTextMayGoBackOrBeAnother) {
  for (const int64_t P : {9, 140}) {
    Make(P);
    const Tokens one = RandomTokens(P, config_.vocab_size, 3);
    Tokens two = RandomTokens(P, config_.vocab_size, 4);
    std::copy_n(one.begin(), P / 2, two.begin());
    const CounterRng rng(5, 6);
    for (uint64_t i = 0; i < 40; ++i) {
      const Tokens& text = rng.Below(2 * i, 2) == 0 ? two : one;
      const size_t size = 1 + rng.Below(2 * i + 1, size_t(P) - 3);
      const auto so_far = std::span(text).first(size);
      ASSERT_EQ(Proposed(*draft_, so_far, 3), Greedy(so_far, 3)) << i;
    }
  }
}

// A page that was filled at once can be shared; when the text goes back, it is copied.
TEST_F(ModelDrafting, AFullContextMayGoBack) {
  for (const int64_t P : {5, 128, 256}) {
    Make(P);
    const Tokens text = RandomTokens(P, config_.vocab_size, 3);
    for (const int64_t size : {P, P - 2, P, P / 2 + 1, P}) {
      const auto so_far = std::span(text).first(size_t(size));
      const int64_t room = P - size + 1;
      EXPECT_EQ(Proposed(*draft_, so_far, 8), Greedy(so_far, std::min<int64_t>(8, room))) << size;
    }
  }
}

TEST_F(ModelDrafting, OfALongTextItSeesTheEnd) {
  Make(9);
  const Tokens text = RandomTokens(60, config_.vocab_size, 3);
  size_t begin = 0;
  for (size_t size = 1; size <= text.size(); ++size) {
    if (size - begin > 9) begin = size - 4;  // half of the context
    const auto seen = std::span(text).first(size).subspan(begin);
    const int64_t room = 9 - std::ssize(seen) + 1;
    ASSERT_EQ(Proposed(*draft_, std::span(text).first(size), 3),
              Greedy(seen, std::min<int64_t>(3, room)))
        << size;
  }
  EXPECT_EQ(Proposed(*draft_, std::span(text).first(30), 3),
            Greedy(std::span(text).first(30).last(4), 3))
      << "back, beyond what it had read";
  EXPECT_EQ(Proposed(*draft_, std::span(text).first(6), 3), Greedy(std::span(text).first(6), 3));
  EXPECT_EQ(Proposed(*draft_, text, 3), Greedy(std::span(text).last(4), 3));
}

TEST_F(ModelDrafting, RefusesAnotherVocabulary) {
  Make(9);
  EXPECT_TRUE(
      Contains(ErrorAndHelp([&] { ModelDraft(*backend_, *weights_, 12); }, ErrorKind::kUsage),
               "the draft's vocabulary has 11 tokens, the model's 12"));
}

// A model and a draft of which we know all.
struct World {
  double accepted = 0.8;                                                     // each token
  std::function<double(int64_t rows)> pass = [](int64_t) { return 1.0; };    // seconds
  double proposal = 0;                                                       // seconds
  std::function<int64_t(int64_t k)> proposed = [](int64_t k) { return k; };  // of so many wanted
  uint64_t seed = 1;

  // Tokens per second with always k.
  double Rate(int64_t k) const {
    double tokens = 0;
    for (int64_t i = 0; i <= k; ++i) tokens += std::pow(accepted, i);
    return tokens / (pass(k + 1) + static_cast<double>(k) * proposal);
  }
};

struct Went {
  std::vector<int64_t> chosen;
  double tokens = 0, seconds = 0;

  double rate() const { return tokens / seconds; }
  int64_t proposals() const { return std::ssize(chosen) - std::ranges::count(chosen, 0); }
};

Went Go(Speculation& speculation, const World& world, int64_t passes) {
  const CounterRng rng(world.seed, 1);
  Went went;
  for (int64_t i = 0; i < passes; ++i) {
    const int64_t k = speculation.Next();
    EXPECT_GE(k, 0);
    EXPECT_LE(k, Speculation::kMost);
    const int64_t proposed = world.proposed(k);
    int64_t accepted = 0;
    while (accepted < proposed &&
           rng.Uniform(static_cast<uint64_t>(i * 16 + accepted)) < world.accepted) {
      ++accepted;
    }
    const double draft = static_cast<double>(proposed) * world.proposal;
    const double pass = world.pass(proposed + 1);
    speculation.Record(proposed, accepted, draft, pass);
    went.chosen.push_back(k);
    went.tokens += static_cast<double>(accepted) + 1;
    went.seconds += draft + pass;
  }
  return went;
}

std::function<double(int64_t)> Linear(double slope) {
  return [slope](int64_t rows) { return 1 + slope * static_cast<double>(rows - 1); };
}

TEST(Speculation, ComesNearTheBestOfAllNumbers) {
  for (const double accepted : {0.0, 0.3, 0.6, 0.8, 0.95, 1.0}) {
    for (const double slope : {0.0, 0.02, 0.1, 0.3, 1.0}) {
      for (const double proposal : {0.0, 0.05, 0.3}) {
        const World world = {.accepted = accepted, .pass = Linear(slope), .proposal = proposal};
        double best = 0;
        for (int64_t k = 0; k <= Speculation::kMost; ++k) best = std::max(best, world.Rate(k));
        Speculation speculation;
        Go(speculation, world, 20);
        EXPECT_GT(Go(speculation, world, 3000).rate(), 0.92 * best)
            << accepted << " " << slope << " " << proposal;
      }
    }
  }
}

TEST(Speculation, ProposesManyWhereAllAreAccepted) {
  Speculation speculation;
  const World world = {.accepted = 1, .pass = Linear(0.05), .proposal = 0.02};
  Go(speculation, world, 20);
  const Went went = Go(speculation, world, 1000);
  EXPECT_GT(std::ranges::count(went.chosen, Speculation::kMost), 950);
  EXPECT_GT(std::ranges::count(went.chosen, 0), 10) << "to compare";
}

// Proposals that are never accepted, that cost a row as much as a pass, or that are slow to make.
TEST(Speculation, TriesRarelyWhatDoesNotPay) {
  const std::pair<World, int64_t> worlds[] = {
      {{.accepted = 0, .pass = Linear(0.1), .proposal = 0.1}, 210},
      {{.accepted = 0.9, .pass = Linear(1)}, 620},
      {{.accepted = 0.7, .pass = Linear(0.01), .proposal = 1}, 620}};
  for (const auto& [world, most] : worlds) {
    Speculation speculation;
    Go(speculation, world, 100);
    const int64_t proposals = Go(speculation, world, 6600).proposals();
    EXPECT_LE(proposals, most) << world.accepted;
    EXPECT_GE(proposals, 150) << world.accepted;
  }
}

TEST(Speculation, NoticesThatItWouldPay) {
  Speculation speculation;
  World world = {.accepted = 0, .pass = Linear(0.1)};
  Go(speculation, world, 1000);
  world.accepted = 0.95;
  Go(speculation, world, 200);
  EXPECT_GT(Go(speculation, world, 200).proposals(), 180);
  world.accepted = 0;
  Go(speculation, world, 150);
  EXPECT_LT(Go(speculation, world, 200).proposals(), 20);
}

TEST(Speculation, NoticesThatRowsHaveBecomeCheaperOrDearer) {
  Speculation speculation;
  World world = {.accepted = 0.9, .pass = Linear(1)};
  Go(speculation, world, 1000);
  world.pass = Linear(0.02);
  Go(speculation, world, 500);
  EXPECT_GT(Go(speculation, world, 200).proposals(), 180);
  world.pass = [](int64_t rows) { return rows == 1 ? 0.1 : 1; };  // one alone has become cheap
  Go(speculation, world, 300);
  EXPECT_LT(Go(speculation, world, 200).proposals(), 30);
}

// Passes of many rows were dear, and so nobody runs any that would show that they no longer are.
TEST(Speculation, TriesAgainWhatWasDearLongAgo) {
  Speculation speculation;
  World world = {.accepted = 0.97, .pass = [](int64_t rows) { return rows <= 3 ? 1 : 5; }};
  Go(speculation, world, 50);
  Went went = Go(speculation, world, 200);
  EXPECT_GT(std::ranges::count(went.chosen, 2), 180);
  world.pass = Linear(0);
  Go(speculation, world, 300);
  went = Go(speculation, world, 200);
  EXPECT_GT(std::ranges::count(went.chosen, Speculation::kMost), 180);
}

TEST(Speculation, FeelsItsWayUp) {
  Speculation speculation;
  const World world = {.accepted = 1, .pass = Linear(0.01)};
  EXPECT_EQ(Go(speculation, world, 6).chosen, (std::vector<int64_t>{0, 0, 2, 4, 8, 8}));
}

TEST(Speculation, GoesOnWithATryWhileAllIsAccepted) {
  Speculation speculation;
  World world = {.accepted = 0, .pass = Linear(0.6)};
  Go(speculation, world, 1000);
  world.accepted = 1;
  Go(speculation, world, 400);
  EXPECT_GT(Go(speculation, world, 200).proposals(), 180);
}

// A pass in twenty takes ten times as long as it should.
TEST(Speculation, StandsDisturbances) {
  Speculation speculation;
  const CounterRng rng(3, 7);
  uint64_t call = 0;
  const World world = {.accepted = 0.9, .pass = [&](int64_t rows) {
                         return Linear(0.05)(rows) * (rng.Uniform(call++) < 0.05 ? 10 : 1);
                       }};
  EXPECT_GT(Go(speculation, world, 1000).proposals(), 900);
}

// As a smaller model that must read what was written without it: a second, each time that it had
// not been asked.
TEST(Speculation, StandsADraftThatHasToCatchUp) {
  Speculation speculation;
  const CounterRng rng(3, 7);
  bool behind = true;
  int64_t proposals = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    const int64_t k = speculation.Next();
    const int64_t accepted = rng.Uniform(i) < 0.2 ? k / 2 : k;
    speculation.Record(k, accepted, k == 0 ? 0 : 0.01 * double(k) + (behind ? 20 : 0),
                       Linear(0.05)(k + 1));
    behind = k == 0;
    proposals += k > 0;
  }
  EXPECT_GT(proposals, 900);
}

// A draft that mostly has no proposal costs nothing then, and is asked all the same.
TEST(Speculation, KeepsAskingADraftThatSaysNothing) {
  Speculation speculation;
  int64_t asked = 0;
  World world = {.accepted = 0.9, .pass = Linear(0.2)};
  world.proposed = [&](int64_t k) {
    return k > 0 && ++asked % 50 == 0 ? std::min<int64_t>(k, 3) : 0;
  };
  EXPECT_GT(Go(speculation, world, 1000).proposals(), 950);
}

TEST(Speculation, BeginsWithPassesToCompareWith) {
  Speculation speculation;
  EXPECT_EQ(speculation.Next(), 0);
  speculation.Record(0, 0, 0, 5);  // the first is slow
  EXPECT_EQ(speculation.Next(), 0);
  speculation.Record(0, 0, 0, 1);
  EXPECT_EQ(speculation.Next(), 2) << "as nothing speaks against it";
  speculation.Record(2, 0, 0, 1.5);
  EXPECT_EQ(speculation.Next(), 1) << "a try has two passes";
}

TEST(Speculation, AClockThatStandsStillIsNoDivisionByZero) {
  Speculation speculation;
  const World world = {.accepted = 0.5, .pass = [](int64_t) { return 0.0; }};
  EXPECT_EQ(Go(speculation, world, 300).chosen.size(), 300u);
}

TEST(Speculation, DependsOnWhatItIsToldAlone) {
  const World world = {.accepted = 0.6, .pass = Linear(0.15), .proposal = 0.03};
  Speculation one, two;
  EXPECT_EQ(Go(one, world, 2000).chosen, Go(two, world, 2000).chosen);
}

TEST(Speculation, RefusesImpossibleNumbers) {
  Speculation speculation;
  EXPECT_DEATH(speculation.Record(2, 3, 0, 1), "more was accepted");
  EXPECT_DEATH(speculation.Record(9, 3, 0, 1), "more was accepted");
}

}  // namespace
}  // namespace folio
