#include "folio/infer/speculation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "folio/base/rng.h"

namespace folio {
namespace {

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

TEST(Speculation, TriesRarelyWhatIsNeverAccepted) {
  Speculation speculation;
  const World world = {.accepted = 0, .pass = Linear(0.1), .proposal = 0.1};
  Go(speculation, world, 100);
  const Went went = Go(speculation, world, 6600);
  EXPECT_LE(went.proposals(), 210);
  EXPECT_GE(went.proposals(), 150);
}

TEST(Speculation, TriesRarelyWhereRowsCostAsMuchAsPasses) {
  Speculation speculation;
  const World world = {.accepted = 0.9, .pass = Linear(1)};
  Go(speculation, world, 100);
  const Went went = Go(speculation, world, 6600);
  EXPECT_LE(went.proposals(), 620);
  EXPECT_GE(went.proposals(), 150);
}

TEST(Speculation, TriesRarelyWhatIsDearToPropose) {
  Speculation speculation;
  const World world = {.accepted = 0.7, .pass = Linear(0.01), .proposal = 1};
  Go(speculation, world, 100);
  EXPECT_LE(Go(speculation, world, 6600).proposals(), 620);
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
