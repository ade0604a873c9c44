#include "folio/data/batch_sampler.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "folio/data/test_tokens.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

// Token i of the file is i, so that inputs say where they come from.
class Samplers : public InTemporaryDirectory {
 protected:
  TokenFile Counting(int64_t tokens) {
    std::vector<int32_t> ids(static_cast<size_t>(tokens));
    std::iota(ids.begin(), ids.end(), 0);
    WriteTokens(At("t.bin"), TokenWidth::k16, ids);
    return TokenFile(At("t.bin").string(), TokenWidth::k16, tokens);
  }

  // Starts of the rows of a step, checking that each row is a window with shifted targets.
  static std::vector<int32_t> Starts(BatchSampler& sampler, uint64_t step, int64_t micro_batches) {
    std::vector<int32_t> starts;
    Batch batch;
    for (int64_t micro = 0; micro < micro_batches; ++micro) {
      sampler.Fill(step, micro, batch);
      for (int64_t b = 0; b < batch.B; ++b) {
        const size_t row = static_cast<size_t>(b * batch.T);
        starts.push_back(batch.inputs[row]);
        for (size_t t = 0; t < static_cast<size_t>(batch.T); ++t) {
          EXPECT_EQ(batch.inputs[row + t], starts.back() + static_cast<int32_t>(t));
          EXPECT_EQ(batch.targets[row + t], batch.inputs[row + t] + 1);
        }
      }
    }
    return starts;
  }
};

TEST_F(Samplers, RandomWindowsDoNotDependOnTheMicroBatchSize) {
  const TokenFile file = Counting(101);
  RandomWindows whole(file, {12, 7, 1}, 3);
  RandomWindows thirds(file, {4, 7, 3}, 3);
  RandomWindows other(file, {12, 7, 1}, 4);
  EXPECT_EQ(Starts(whole, 5, 1), Starts(thirds, 5, 3));
  EXPECT_EQ(Starts(whole, 5, 1), Starts(whole, 5, 1));
  EXPECT_NE(Starts(whole, 5, 1), Starts(whole, 6, 1));
  EXPECT_NE(Starts(whole, 5, 1), Starts(other, 5, 1));
}

TEST_F(Samplers, RandomWindowsReachTheFirstAndTheLastStartAndNoOther) {
  const TokenFile file = Counting(11);
  RandomWindows sampler(file, {50, 8, 1}, 1);
  const std::vector<int32_t> starts = Starts(sampler, 0, 1);
  EXPECT_EQ(std::set<int32_t>(starts.begin(), starts.end()), (std::set<int32_t>{0, 1, 2}));
}

TEST_F(Samplers, AnEpochGivesEveryWindowOnce) {
  for (const int64_t tokens : {8, 9, 14, 15, 53, 103, 501}) {
    const TokenFile file = Counting(tokens);
    ShuffledEpochs sampler(file, {1, 7, 1}, 11);
    const auto windows = static_cast<uint64_t>(sampler.windows());
    EXPECT_EQ(sampler.windows(), std::max<int64_t>(1, tokens / 7 - 1)) << tokens;
    for (uint64_t epoch = 0; epoch < 5; ++epoch) {
      std::set<int64_t> starts;
      for (uint64_t i = 0; i < windows; ++i) {
        starts.insert(Starts(sampler, epoch * windows + i, 1)[0]);
      }
      ASSERT_EQ(starts.size(), windows) << tokens;
      EXPECT_LT(*starts.begin(), 7);
      EXPECT_EQ(*starts.rbegin() - *starts.begin(), (sampler.windows() - 1) * 7);
    }
  }
}

TEST_F(Samplers, EpochsDifferAndCrossBatches) {
  const TokenFile file = Counting(2003);
  ShuffledEpochs sampler(file, {5, 7, 2}, 11);
  ShuffledEpochs whole(file, {10, 7, 1}, 11);
  std::set<int64_t> offsets;
  for (uint64_t epoch = 0; epoch < 20; ++epoch) {
    offsets.insert(sampler.StartAt(epoch * static_cast<uint64_t>(sampler.windows())) % 7);
  }
  EXPECT_GT(offsets.size(), 3u);
  for (uint64_t step = 0; step < 60; ++step) {
    const std::vector<int32_t> starts = Starts(sampler, step, 2);
    EXPECT_EQ(starts, Starts(whole, step, 1));
    for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(starts[i], sampler.StartAt(step * 10 + i));
  }
}

TEST(Permutation, IsABijectionThatMovesThings) {
  for (const uint64_t n : {1u, 2u, 3u, 4u, 5u, 17u, 64u, 1000u, 4097u}) {
    std::vector<bool> hit(n);
    uint64_t fixed = 0;
    for (uint64_t i = 0; i < n; ++i) {
      const uint64_t to = Permute(i, n, 1337, 2);
      ASSERT_LT(to, n);
      EXPECT_FALSE(hit[to]) << n;
      hit[to] = true;
      fixed += to == i ? 1 : 0;
    }
    if (n >= 64) {
      EXPECT_LT(fixed, n / 8);
    }
  }
  EXPECT_LT(Permute((uint64_t{1} << 40) + 5, (uint64_t{1} << 40) + 7, 1, 0),
            (uint64_t{1} << 40) + 7);
}

TEST_F(Samplers, TorchWindowsDrawFromTheSharedGeneratorInOrder) {
  const TokenFile file = Counting(1000);
  TorchRng shared(1337);
  TorchRng same(1337);
  TorchWindows sampler(file, {4, 9, 1}, shared);
  for (int call = 0; call < 3; ++call) {
    std::vector<int64_t> expected(4);
    same.RandInt(expected, 0, 991);
    const std::vector<int32_t> starts = Starts(sampler, 0, 1);
    EXPECT_EQ(std::vector<int64_t>(starts.begin(), starts.end()), expected);
    EXPECT_EQ(shared.Random32(), same.Random32());
  }
}

TEST_F(Samplers, SequentialWindowsPredictEveryTokenOnce) {
  for (const int64_t tokens : {2, 7, 8, 9, 43, 44, 100}) {
    const TokenFile file = Counting(tokens);
    SequentialWindows sampler(file, {3, 7, 2});
    std::vector<int32_t> targets;
    Batch batch;
    for (int64_t step = 0; step < sampler.steps(); ++step) {
      bool any = false;
      for (int64_t micro = 0; micro < 2; ++micro) {
        sampler.Fill(static_cast<uint64_t>(step), micro, batch);
        for (size_t i = 0; i < batch.targets.size(); ++i) {
          if (batch.targets[i] == Batch::kNoTarget) {
            EXPECT_EQ(batch.inputs[i], 0);
            continue;
          }
          any = true;
          EXPECT_EQ(batch.inputs[i], batch.targets[i] - 1);
          targets.push_back(batch.targets[i]);
        }
      }
      EXPECT_TRUE(any) << "a step without a target";
    }
    std::vector<int32_t> expected(static_cast<size_t>(tokens - 1));
    std::iota(expected.begin(), expected.end(), 1);
    EXPECT_EQ(targets, expected) << tokens;
  }
}

TEST_F(Samplers, DataShorterThanAWindowIsExplained) {
  const TokenFile file = Counting(8);
  TorchRng rng(1);
  const std::string error = ErrorOf([&] { RandomWindows(file, {1, 8, 1}, 1); });
  EXPECT_TRUE(Contains(error, "a context of 8 needs 9 tokens, the file has 8"));
  ErrorOf([&] { ShuffledEpochs(file, {1, 8, 1}, 1); });
  ErrorOf([&] { TorchWindows(file, {1, 8, 1}, rng); });
  RandomWindows(file, {1, 7, 1}, 1);
  const TokenFile one = Counting(1);
  ErrorOf([&] { SequentialWindows(one, {1, 8, 1}); });
}

TEST_F(Samplers, ABatchIsReusedWithoutAllocation) {
  const TokenFile file = Counting(101);
  RandomWindows sampler(file, {4, 7, 1}, 3);
  Batch batch;
  sampler.Fill(0, 0, batch);
  const int32_t* inputs = batch.inputs.data();
  const int32_t* targets = batch.targets.data();
  sampler.Fill(1, 0, batch);
  EXPECT_EQ(batch.inputs.data(), inputs);
  EXPECT_EQ(batch.targets.data(), targets);
}

}  // namespace
}  // namespace folio
