#include "folio/base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <utility>
#include <vector>

namespace folio {
namespace {

// Restores the number of threads that a test changes.
class Parallel : public testing::Test {
 protected:
  ~Parallel() override { SetThreads(threads_); }

 private:
  int threads_ = Threads();
};

TEST_F(Parallel, ForRunsEveryTaskOnce) {
  for (int threads = 1; threads <= 4; ++threads) {
    SetThreads(threads);
    EXPECT_EQ(Threads(), threads);
    for (int64_t tasks : {0, 1, 2, 3, 4, 5, 1009}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(tasks));
      std::atomic<int> bad_threads = 0;
      ParallelFor(tasks, [&](int64_t task, int thread) {
        ++runs[static_cast<size_t>(task)];
        if (thread < 0 || thread >= threads) ++bad_threads;
      });
      for (const auto& count : runs) EXPECT_EQ(count, 1);
      EXPECT_EQ(bad_threads, 0);
    }
  }
}

// Scratch memory by thread number is safe only if no two tasks with one number run at a time.
TEST_F(Parallel, ThreadNumbersAreExclusive) {
  SetThreads(4);
  std::vector<std::atomic<int>> busy(4);
  std::atomic<int> clashes = 0, work = 0;
  ParallelFor(400, [&](int64_t, int thread) {
    if (busy[static_cast<size_t>(thread)].fetch_add(1) != 0) ++clashes;
    for (int i = 0; i < 300; ++i) work += i;
    --busy[static_cast<size_t>(thread)];
  });
  EXPECT_EQ(clashes, 0);
}

TEST_F(Parallel, NestedForStaysOnItsThread) {
  for (int threads : {1, 3, 4}) {
    SetThreads(threads);
    std::vector<std::atomic<int>> runs(13 * 7);
    std::atomic<int> strays = 0;
    ParallelFor(13, [&](int64_t outer, int outer_thread) {
      int64_t expected = 0;
      ParallelFor(7, [&](int64_t inner, int inner_thread) {
        ++runs[static_cast<size_t>(outer * 7 + inner)];
        if (inner_thread != outer_thread || inner != expected++) ++strays;
      });
    });
    for (const auto& count : runs) EXPECT_EQ(count, 1);
    EXPECT_EQ(strays, 0);
  }
}

TEST_F(Parallel, RangeCoversEachElementOnce) {
  SetThreads(3);
  for (int64_t n : {0, 1, 7, 8, 9, 1000}) {
    for (int64_t grain : {1, 8, 999, 5000}) {
      std::vector<std::atomic<int>> touched(static_cast<size_t>(n));
      std::atomic<int> bad_pieces = 0;
      ParallelRange(n, grain, [&](int64_t begin, int64_t end, int) {
        if (begin >= end || begin % grain != 0 || end > n || (end - begin != grain && end != n)) {
          ++bad_pieces;
          return;
        }
        for (int64_t i = begin; i < end; ++i) ++touched[static_cast<size_t>(i)];
      });
      EXPECT_EQ(bad_pieces, 0) << n << " " << grain;
      for (const auto& count : touched) EXPECT_EQ(count, 1) << n << " " << grain;
    }
  }
}

TEST_F(Parallel, ZeroThreadsAreRefused) {
  EXPECT_DEATH(SetThreads(0), "at least one thread");
}

}  // namespace
}  // namespace folio
