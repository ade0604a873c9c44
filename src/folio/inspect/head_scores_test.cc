#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "folio/inspect/attention.h"

namespace folio {
namespace {

using Ids = std::vector<int32_t>;

// All of a query's weight on one key.
std::vector<float> Pointing(const std::vector<size_t>& keys) {
  std::vector<float> weights(keys.size() * keys.size());
  for (size_t t = 0; t < keys.size(); ++t) weights[t * keys.size() + keys[t]] = 1;
  return weights;
}

TEST(HeadScores, OfAHeadThatLooksAtThePreviousToken) {
  const HeadScores scores = ScoreHead(Pointing({0, 0, 1, 2, 3}), Ids{5, 6, 7, 8, 9});
  EXPECT_EQ(scores.previous, 1);
  EXPECT_EQ(scores.first, 0.25);  // query 1 alone
  EXPECT_EQ(scores.self, 0);
  EXPECT_EQ(scores.distance, 1);
  EXPECT_EQ(scores.entropy, 0);
  EXPECT_EQ(scores.duplicate, 0);
  EXPECT_EQ(scores.induction, 0);
}

TEST(HeadScores, OfAHeadThatLooksAtTheFirstToken) {
  const HeadScores scores = ScoreHead(Pointing({0, 0, 0, 0}), Ids{5, 6, 7, 8});
  EXPECT_EQ(scores.first, 1);
  EXPECT_NEAR(scores.previous, 1.0 / 3, 1e-15);
  EXPECT_EQ(scores.distance, 2);  // of 1, 2 and 3
}

TEST(HeadScores, OfAHeadThatLooksAhead) {
  const HeadScores scores = ScoreHead(Pointing({3, 3, 3, 2}), Ids{5, 6, 5, 5});
  EXPECT_EQ(scores.distance, (2 + 1 + 1) / 3.0);
  EXPECT_EQ(scores.duplicate, 0.5);  // for queries 2 and 3, the last: later occurrences do not
                                     // count
  const HeadScores even = ScoreHead(std::vector<float>(9, 1.0F / 3), Ids{1, 2, 3});
  EXPECT_NEAR(even.entropy, std::log(3.0), 1e-7);
}

TEST(HeadScores, OfAHeadThatLooksAtItself) {
  const HeadScores scores = ScoreHead(Pointing({0, 1, 2}), Ids{5, 5, 5});
  EXPECT_EQ(scores.self, 1);
  EXPECT_EQ(scores.distance, 0);
  EXPECT_EQ(scores.duplicate, 0);  // the query is not an earlier occurrence of itself
  EXPECT_EQ(scores.induction, 0);  // and not an earlier token
}

// a b c a b: the queries "a" and "b" at 3 and 4 have occurred before.
TEST(HeadScores, DuplicatesAndInductionCountWhereTheTokenWasBefore) {
  const Ids ids = {1, 2, 3, 1, 2};
  const HeadScores duplicate = ScoreHead(Pointing({0, 0, 0, 0, 1}), ids);
  EXPECT_EQ(duplicate.duplicate, 1);
  EXPECT_EQ(duplicate.induction, 0);
  const HeadScores induction = ScoreHead(Pointing({0, 0, 0, 1, 2}), ids);
  EXPECT_EQ(induction.duplicate, 0);
  EXPECT_EQ(induction.induction, 1);
  // Query 3 looks at "b" (induction), query 4 at "b" (duplicate): one of two each.
  const HeadScores half = ScoreHead(Pointing({0, 0, 0, 1, 1}), ids);
  EXPECT_EQ(half.duplicate, 0.5);
  EXPECT_EQ(half.induction, 0.5);
}

// a a a: query 1 has an earlier "a" but nothing between; query 2 has two, one of which followed.
TEST(HeadScores, RepeatedTokens) {
  const std::vector<float> weights = {1, 0, 0, 0.25f, 0.75f, 0, 0.5f, 0.125f, 0.375f};
  const HeadScores scores = ScoreHead(weights, Ids{4, 4, 4});
  EXPECT_EQ(scores.duplicate, (0.25 + 0.625) / 2);
  EXPECT_EQ(scores.induction, 0.125);
  EXPECT_EQ(scores.first, 0.375);
  EXPECT_EQ(scores.previous, (0.25 + 0.125) / 2);
  EXPECT_EQ(scores.self, (0.75 + 0.375) / 2);
  EXPECT_EQ(scores.distance, (0.25 + (1 + 0.125)) / 2);
}

TEST(HeadScores, EntropyIsThatOfTheQueriesWeights) {
  const std::vector<float> weights = {1, 0, 0, 0.5f, 0.5f, 0, 0.5f, 0.25f, 0.25f};
  const double two = std::log(2.0), three = 0.5 * std::log(2.0) + 0.5 * std::log(4.0);
  EXPECT_NEAR(ScoreHead(weights, Ids{1, 2, 3}).entropy, (two + three) / 2, 1e-15);
}

TEST(HeadScores, OneTokenHasNoQueryToAsk) {
  const HeadScores scores = ScoreHead(std::vector<float>{1}, Ids{3});
  for (const double score : {scores.entropy, scores.distance, scores.first, scores.previous,
                             scores.self, scores.duplicate, scores.induction}) {
    EXPECT_EQ(score, 0);
  }
  EXPECT_DEATH(ScoreHead(std::vector<float>{1, 0}, Ids{3, 4}), "weights are");
}

}  // namespace
}  // namespace folio
