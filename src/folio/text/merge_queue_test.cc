#include "folio/text/merge_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "folio/base/rng.h"

namespace folio {
namespace {

TEST(MergeQueue, PopsTheBestWhileCountsFallAndPairsCome) {
  const CounterRng rng(2, 0);
  uint64_t draws = 0;
  const auto below = [&](uint64_t n) { return static_cast<int64_t>(rng.Below(draws++, n)); };
  PairCounts counts;
  MergeQueue queue(2);
  std::vector<MergeCandidate> all;  // with the counts they have now
  int32_t next = 0;
  const auto add = [&](int64_t count) {
    // Scrambled, so that pairs do not come in their order; 7919 is prime.
    const int32_t left = next++ * 5003 % 7919;
    const MergeCandidate candidate{count, left, left % 7, 0, 0};
    counts.Reserve(1);
    counts.Insert(PairKey(candidate.left, candidate.right), count);
    queue.Push(candidate);
    all.push_back(candidate);
  };
  for (int i = 0; i < 500; ++i) add(1 + below(i % 3 == 0 ? 3000 : 40));
  int popped = 0;
  for (;; ++popped) {
    const auto better = [](const MergeCandidate& a, const MergeCandidate& b) {
      if (a.count != b.count) return a.count > b.count;
      return PairKey(a.left, a.right) < PairKey(b.left, b.right);
    };
    const auto expected = std::min_element(all.begin(), all.end(), better);
    const auto best = queue.Pop(counts);
    if (expected == all.end() || expected->count < 2) {
      EXPECT_FALSE(best);
      break;
    }
    ASSERT_TRUE(best);
    ASSERT_EQ(best->count, expected->count);
    ASSERT_EQ(best->left, expected->left);
    all.erase(expected);
    for (MergeCandidate& candidate : all) {
      if (below(60) != 0) continue;
      const int64_t fall = below(static_cast<uint64_t>(candidate.count) + 1);
      candidate.count -= fall;
      counts.Subtract(PairKey(candidate.left, candidate.right), fall);
    }
    if (popped < 2000) add(1 + below(static_cast<uint64_t>(best->count)));
  }
  EXPECT_GT(popped, 400);
}

TEST(PairCounts, AnswersZeroForPairsThatAreNotThere) {
  PairCounts counts;
  counts.Reserve(1);
  counts.Insert(PairKey(3, 4), 5);
  counts.Subtract(PairKey(4, 3), 2);
  EXPECT_EQ(counts.Count(PairKey(4, 3)), 0);
  EXPECT_EQ(counts.Count(PairKey(3, 4)), 5);
}

}  // namespace
}  // namespace folio
