// These tests check that the executor runs kernels as a GPU does, and finds the faults that a GPU
// does not tell: one of each kind is planted here.

#include "folio/backend/device/executor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "folio/backend/device/numbers.h"
#include "folio/base/error.h"
#include "tests/kit/expect.h"

namespace folio::device {
namespace {

constexpr int kOrders = 20;

// The error of a launch, "kernel NAME | block 0: CAUSE".
template <class... Parameters, class... Arguments>
std::string FaultOf(const LaunchShape& shape, void (*kernel)(Parameters...),
                    const Arguments&... arguments) {
  Executor executor(1);
  return ErrorOf([&] { Launch(executor, shape, kernel, arguments...); }, ErrorKind::kRuntime);
}

FOLIO_KERNEL void NumberThreads(int* out) {
  out[(BlockY() * 3 + BlockX()) * BlockThreads() + ThreadInBlock()] += 1;
}

TEST(Executor, RunsEachThreadOfEachBlockOnce) {
  Executor executor(1);
  std::vector<int> out(3 * 5 * 70, 0);
  Launch(executor, {.blocks = 3, .blocks_y = 5, .threads = 70}, NumberThreads, out.data());
  EXPECT_EQ(out, std::vector<int>(out.size(), 1));
}

FOLIO_KERNEL void AppendThread(std::vector<int>* order) {
  order->push_back(static_cast<int>(BlockX()) * BlockThreads() + ThreadInBlock());
}

TEST(Executor, RunsThreadsAndBlocksInAnOrderOfTheSeed) {
  const auto order_of = [](uint64_t seed) {
    Executor executor(seed);
    std::vector<int> order;
    Launch(executor, {.blocks = 4, .threads = 8}, AppendThread, &order);
    return order;
  };
  std::set<std::vector<int>> orders;
  std::set<int> first_blocks;
  for (uint64_t seed = 0; seed < kOrders; ++seed) {
    orders.insert(order_of(seed));
    first_blocks.insert(order_of(seed)[0] / 8);
  }
  EXPECT_EQ(orders.size(), kOrders);
  EXPECT_EQ(first_blocks.size(), 4);
  EXPECT_EQ(order_of(3), order_of(3));
}

FOLIO_KERNEL void SumBlock(const float* x, float* out, bool with_barrier) {
  FOLIO_SHARED(float, sums, 2);
  const float sum = WarpSum(x[ThreadInBlock()]);
  if (Lane() == 0) sums[ThreadInBlock() / kWarp] = sum;
  if (with_barrier) Barrier();
  if (ThreadInBlock() == 0) out[0] = sums[0] + sums[1];
}

// The bits of the sum in each of many orders.
std::set<uint32_t> SumsInManyOrders(bool with_barrier) {
  std::vector<float> x(64);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 1.0f / static_cast<float>(i + 1);
  std::set<uint32_t> sums;
  for (uint64_t seed = 0; seed < kOrders; ++seed) {
    Executor executor(seed);
    float out = 0;
    Launch(executor, {.kernel = "sum", .threads = 64}, SumBlock, x.data(), &out, with_barrier);
    sums.insert(std::bit_cast<uint32_t>(out));
  }
  return sums;
}

TEST(Executor, GivesTheSameBitsInEveryOrderUnlessABarrierIsMissing) {
  EXPECT_EQ(SumsInManyOrders(true).size(), 1);
  EXPECT_GT(SumsInManyOrders(false).size(), 1);
}

FOLIO_KERNEL void ReadSharedFirst(float* out) {
  FOLIO_SHARED(float, values, 64);
  FOLIO_DYNAMIC_SHARED(float, dynamic);
  if (ThreadInBlock() > 0) values[ThreadInBlock()] = dynamic[ThreadInBlock()] = 1;
  Barrier();
  out[2 * ThreadInBlock()] = values[ThreadInBlock()];
  out[2 * ThreadInBlock() + 1] = dynamic[ThreadInBlock()];
}

TEST(Executor, SharedMemoryIsNanUntilItIsWrittenInEachBlock) {
  Executor executor(1);
  for (const int64_t blocks : {1, 2, 1}) {  // the second block sees nothing of the first one
    std::vector<float> out(128, 0);
    Launch(executor, {.blocks = blocks, .threads = 64, .shared_bytes = 256}, ReadSharedFirst,
           out.data());
    EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out[1]));
    EXPECT_EQ(std::accumulate(out.begin() + 2, out.end(), 0.0f), 126);
  }
}

FOLIO_KERNEL void WriteOutside(int at, bool dynamic) {
  FOLIO_DYNAMIC_SHARED(float, first);
  FOLIO_SHARED(float, second, 3);
  (dynamic ? first : second)[at] = 1;
}

TEST(Executor, FindsWritesOutsideOfSharedArrays) {
  const LaunchShape shape = {.kernel = "outside", .threads = 1, .shared_bytes = 20};
  EXPECT_TRUE(Contains(FaultOf(shape, WriteOutside, 3, false), "kernel outside",
                       "at 12 of the 12 bytes", "executor_test.cc:"));
  EXPECT_TRUE(Contains(FaultOf(shape, WriteOutside, 5, true), "at 20 of the 20 bytes", "dynamic"));
  EXPECT_TRUE(Contains(FaultOf(shape, WriteOutside, -1, true), "at -4 of the 20 bytes"));
  Executor executor(1);
  Launch(executor, shape, WriteOutside, 2, false);
  Launch(executor, shape, WriteOutside, 4, true);
}

FOLIO_KERNEL void BarrierInTwoBranches() {
  if (ThreadInBlock() < 32) {
    Barrier();
  } else {
    Barrier();
  }
}
FOLIO_KERNEL void BarrierAfterReturn() {
  if (ThreadInBlock() == 7) return;
  Barrier();
}

TEST(Executor, FindsBarriersThatNotAllThreadsReach) {
  EXPECT_TRUE(Contains(FaultOf({.kernel = "twice", .threads = 64}, BarrierInTwoBranches),
                       "kernel twice", "thread 0 waits at the barrier in executor_test.cc:",
                       "and thread 32 waits at the barrier in executor_test.cc:"));
  EXPECT_TRUE(
      Contains(FaultOf({.kernel = "left", .threads = 64}, BarrierAfterReturn), "kernel left",
               "thread 0 waits at the barrier in executor_test.cc:", "and thread 7 has returned"));
}

FOLIO_KERNEL void MeetTheOneThatLeft(float* out) {
  if (ThreadInBlock() == 5) return;
  out[ThreadInBlock()] = WarpSum(1.0f);
}
FOLIO_KERNEL void MeetInTwoCalls(float* out) {
  if (Lane() < 16) {
    out[ThreadInBlock()] = ShuffleXor(1.0f, 1);
  } else {
    out[ThreadInBlock()] = ShuffleXor(2.0f, 1);
  }
}
FOLIO_KERNEL void MeetAtABarrier(float* out) {
  if (Lane() == 0) {
    Barrier();
  } else {
    out[ThreadInBlock()] = ShuffleXor(1.0f, 1);
  }
}
FOLIO_KERNEL void MeetOutsideOfTheMask(uint32_t lanes) {
  Ballot(true, lanes);
}
FOLIO_KERNEL void ReadOutsideOfTheMask(float* out) {
  if (Lane() < 16) out[Lane()] = ShuffleXor(1.0f, 16, 0xffff);
}

TEST(Executor, FindsLanesThatDoNotMeet) {
  std::vector<float> out(32);
  float* const to = out.data();
  EXPECT_TRUE(Contains(FaultOf({.kernel = "left"}, MeetTheOneThatLeft, to), "kernel left",
                       "thread 0 meets lanes 0xffffffff in numbers.h:", "thread 5 has returned"));
  EXPECT_TRUE(Contains(FaultOf({}, MeetInTwoCalls, to),
                       "thread 0 meets lanes 0xffffffff in executor_test.cc:",
                       "and thread 16 meets lanes 0xffffffff in executor_test.cc:"));
  EXPECT_TRUE(Contains(FaultOf({}, MeetAtABarrier, to), "thread 0 waits at the barrier in",
                       "thread 1 meets lanes"));
  EXPECT_TRUE(Contains(FaultOf({}, MeetOutsideOfTheMask, 0xfffffffe),
                       "thread 0 meets lanes 0xfffffffe in", "of which it is none"));
  EXPECT_TRUE(Contains(FaultOf({}, ReadOutsideOfTheMask, to), "reads from lane", "0x0000ffff"));
  EXPECT_TRUE(
      Contains(FaultOf({.threads = 40}, MeetOutsideOfTheMask, kAllLanes), "its warp is not whole"));
}

FOLIO_KERNEL void MeetInHalves(float* out, uint32_t* ballots) {
  const uint32_t half = Lane() < 16 ? 0xffff : 0xffff0000;
  ballots[ThreadInBlock()] = Ballot(Lane() % 3 == 0, half);
  float sum = static_cast<float>(Lane());
  for (int distance = 8; distance > 0; distance /= 2) sum += ShuffleXor(sum, distance, half);
  out[ThreadInBlock()] = sum;
}

TEST(Executor, LanesOfAMaskMeetWithoutTheOthers) {
  for (uint64_t seed = 0; seed < kOrders; ++seed) {
    Executor executor(seed);
    std::vector<float> out(96);
    std::vector<uint32_t> ballots(96);
    Launch(executor, {.threads = 96}, MeetInHalves, out.data(), ballots.data());
    for (size_t i = 0; i < out.size(); ++i) {
      EXPECT_EQ(out[i], i % 32 < 16 ? 120 : 376);
      EXPECT_EQ(ballots[i], i % 32 < 16 ? 0x9249u : 0x49240000u);
    }
  }
}

FOLIO_KERNEL void PassRound(int* slots) {
  for (int round = 0; round < 10; ++round) {
    if (Lane() == round) slots[0] += 1;
    WarpBarrier();
    if (Lane() == 31 - round) slots[1] += slots[0];
    WarpBarrier();
  }
}

TEST(Executor, LanesSeeEachOthersWritesAfterAWarpBarrier) {
  for (uint64_t seed = 0; seed < kOrders; ++seed) {
    Executor executor(seed);
    std::vector<int> slots(2, 0);
    Launch(executor, {}, PassRound, slots.data());
    EXPECT_EQ(slots, (std::vector<int>{10, 55}));
  }
}

FOLIO_KERNEL void TakeShared() {
  FOLIO_SHARED(float, values, 1024);
  values[0] = 0;
}

TEST(Executor, RefusesLaunchesThatNoDeviceAccepts) {
  std::vector<int> out(1);
  for (const LaunchShape& shape : {LaunchShape{.threads = 1025}, {.threads = 0}}) {
    EXPECT_TRUE(Contains(FaultOf(shape, TakeShared), "threads in a block, expected 1 to 1024"));
  }
  for (const LaunchShape& shape : {LaunchShape{.blocks = 0},
                                   {.blocks = kMaxBlocks + 1},
                                   {.blocks_y = 65536},
                                   {.blocks_y = 0}}) {
    EXPECT_TRUE(Contains(FaultOf(shape, TakeShared), "a grid of", "1 to 65535"));
  }
  EXPECT_TRUE(Contains(FaultOf({.shared_bytes = 227 * 1024 + 1}, TakeShared),
                       "232449 bytes of shared memory, expected at most 232448"));
  EXPECT_TRUE(Contains(FaultOf({.shared_bytes = 224 * 1024}, TakeShared),
                       "with the array in executor_test.cc:", "at most 232448"));
  Executor executor(1);
  Launch(executor, {.threads = 1024, .shared_bytes = 223 * 1024}, TakeShared);
}

TEST(Executor, RunsOtherLaunchesAfterAnError) {
  Executor executor(1);
  std::vector<float> out(32);
  Refused([&] { Launch(executor, {}, MeetTheOneThatLeft, out.data()); }, ErrorKind::kRuntime);
  std::vector<int> counts(70, 0);
  Launch(executor, {.threads = 70}, NumberThreads, counts.data());
  EXPECT_EQ(counts, std::vector<int>(70, 1));
}

}  // namespace
}  // namespace folio::device
