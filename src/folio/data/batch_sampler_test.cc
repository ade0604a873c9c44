#include "folio/data/batch_sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "folio/data/test_tokens.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

// Token i of the file is i, so that inputs show their origin.
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

// The targets of a batch, row by row; checks that its inputs are consecutive tokens and each target
// follows its input.
std::vector<std::vector<int32_t>> TargetsOf(const Batch& batch) {
  std::vector<std::vector<int32_t>> rows(static_cast<size_t>(batch.B));
  for (size_t i = 0; i < batch.inputs.size(); ++i) {
    const size_t T = static_cast<size_t>(batch.T);
    EXPECT_EQ(batch.inputs[i], batch.inputs[i / T * T] + static_cast<int32_t>(i % T));
    if (batch.targets[i] == Batch::kNoTarget) continue;
    EXPECT_EQ(batch.targets[i], batch.inputs[i] + 1);
    rows[i / T].push_back(batch.targets[i]);
  }
  return rows;
}

// 1 .. last
std::vector<int32_t> UpTo(int64_t last) {
  std::vector<int32_t> numbers(static_cast<size_t>(last));
  std::iota(numbers.begin(), numbers.end(), 1);
  return numbers;
}

TEST_F(Samplers, AnEpochPredictsEveryTokenButTheFirstOnce) {
  for (const int64_t T : {1, 2, 3, 7, 10}) {
    for (int64_t tokens = T + 1; tokens < 3 * T + 3; ++tokens) {
      const TokenFile file = Counting(tokens);
      ShuffledEpochs sampler(file, {1, T, 1}, 11);
      const auto windows = static_cast<uint64_t>(sampler.windows());
      ASSERT_LE(sampler.windows(), (tokens - 1) / T + 1) << tokens << " tokens, T=" << T;
      Batch batch;
      for (uint64_t epoch = 0; epoch < 4; ++epoch) {
        std::vector<int32_t> targets;
        for (uint64_t i = 0; i < windows; ++i) {
          sampler.Fill(epoch * windows + i, 0, batch);
          const std::vector<int32_t> row = TargetsOf(batch)[0];
          EXPECT_FALSE(row.empty()) << tokens << " tokens, T=" << T;
          EXPECT_EQ(batch.CountTargets(), static_cast<int64_t>(row.size()));
          targets.insert(targets.end(), row.begin(), row.end());
        }
        std::ranges::sort(targets);
        ASSERT_EQ(targets, UpTo(tokens - 1)) << tokens << " tokens, T=" << T;
      }
    }
  }
}

TEST_F(Samplers, EpochsHaveOtherPhasesAndOrdersAndCrossBatches) {
  const TokenFile file = Counting(2003);  // 286 * 7 targets
  ShuffledEpochs sampler(file, {5, 7, 2}, 11);
  ShuffledEpochs whole(file, {10, 7, 1}, 11);
  ShuffledEpochs one(file, {1, 7, 1}, 11);
  ASSERT_EQ(one.windows(), 287);
  std::set<size_t> phases;
  std::set<int32_t> begins;
  Batch batch;
  for (uint64_t i = 0; i < 40 * 287; ++i) {
    one.Fill(i, 0, batch);
    const std::vector<int32_t> row = TargetsOf(batch)[0];
    if (row.front() == 1) phases.insert(row.size());
    if (i % 287 == 0) begins.insert(row.front());
  }
  EXPECT_EQ(phases, (std::set<size_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_GT(begins.size(), 30u);
  for (uint64_t step = 0; step < 60; ++step) {
    whole.Fill(step, 0, batch);
    const auto expected = TargetsOf(batch);
    std::vector<std::vector<int32_t>> found, single;
    for (int64_t micro = 0; micro < 2; ++micro) {
      sampler.Fill(step, micro, batch);
      for (auto& row : TargetsOf(batch)) found.push_back(row);
    }
    EXPECT_EQ(found, expected);
    for (uint64_t i = 0; i < 10; ++i) {
      one.Fill(step * 10 + i, 0, batch);
      EXPECT_EQ(TargetsOf(batch)[0], expected[i]);
    }
  }
}

TEST_F(Samplers, AllWindowsComeOnceInAnEpochOfThem) {
  const TokenFile file = Counting(109);
  ShuffledWindows sampler(file, {3, 10, 11}, 5);  // 3 * 33 = 109 - 10
  ShuffledWindows whole(file, {33, 10, 1}, 5);
  std::vector<std::vector<int32_t>> epochs;
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<int32_t> starts;
    for (uint64_t step = 3 * epoch; step < 3 * epoch + 3; ++step) {
      const std::vector<int32_t> some = Starts(sampler, step, 11);
      EXPECT_EQ(some, Starts(whole, step, 1));
      starts.insert(starts.end(), some.begin(), some.end());
    }
    epochs.push_back(starts);
    EXPECT_EQ(std::set<int32_t>(starts.begin(), starts.end()).size(), 99u);
    EXPECT_EQ(*std::ranges::min_element(starts), 0);
    EXPECT_EQ(*std::ranges::max_element(starts), 98);
    EXPECT_FALSE(std::ranges::is_sorted(starts));
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[0], epochs[2]);
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
    SequentialWindows sampler(file, {3, 7, 2}, 7);
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
    EXPECT_EQ(targets, UpTo(tokens - 1)) << tokens;
  }
}

TEST_F(Samplers, AStrideGivesWindowsThatOverlapUpToTheEnd) {
  const auto starts = [&](int64_t tokens, int64_t stride) {
    const TokenFile file = Counting(tokens);
    SequentialWindows sampler(file, {3, 7, 1}, stride);
    std::vector<int32_t> found;
    Batch batch;
    for (int64_t step = 0; step < sampler.steps(); ++step) {
      sampler.Fill(static_cast<uint64_t>(step), 0, batch);
      for (size_t row = 0; row < 21; row += 7) {
        if (batch.targets[row] == Batch::kNoTarget) continue;
        found.push_back(batch.inputs[row]);
        for (size_t t = 0; t < 7; ++t) {  // whole, but for the end of the file
          const int32_t target = batch.targets[row + t];
          const int32_t next = found.back() + static_cast<int32_t>(t) + 1;
          EXPECT_EQ(target, next < tokens ? next : Batch::kNoTarget);
        }
      }
    }
    return found;
  };
  using Starts = std::vector<int32_t>;
  EXPECT_EQ(starts(12, 1), (Starts{0, 1, 2, 3, 4}));  // 12 - 7, the number of windows that fit
  EXPECT_EQ(starts(12, 2), (Starts{0, 2, 4}));
  EXPECT_EQ(starts(12, 3), (Starts{0, 3, 6}));
  EXPECT_EQ(starts(12, 7), (Starts{0, 7}));
  EXPECT_EQ(starts(15, 7), (Starts{0, 7}));
  EXPECT_EQ(starts(16, 7), (Starts{0, 7, 14}));
  EXPECT_EQ(starts(8, 1), (Starts{0}));
  EXPECT_EQ(starts(4, 1), (Starts{0}));
}

TEST_F(Samplers, DataShorterThanAWindowIsExplained) {
  const TokenFile file = Counting(8);
  TorchRng rng(1);
  const std::string error = ErrorOf([&] { RandomWindows(file, {1, 8, 1}, 1); });
  EXPECT_TRUE(Contains(error, "a context of 8 requires 9 tokens, the file has 8"));
  ErrorOf([&] { ShuffledEpochs(file, {1, 8, 1}, 1); });
  ErrorOf([&] { ShuffledWindows(file, {1, 8, 1}, 1); });
  ErrorOf([&] { TorchWindows(file, {1, 8, 1}, rng); });
  RandomWindows(file, {1, 7, 1}, 1);
  const TokenFile one = Counting(1);
  ErrorOf([&] { SequentialWindows(one, {1, 8, 1}, 8); });
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
