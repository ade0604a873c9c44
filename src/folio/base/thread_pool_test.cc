#include "folio/base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

#include "folio/base/steady_threads.h"
#include "tests/kit/expect.h"
#include "tests/kit/threads.h"

namespace folio {
namespace {

class Parallel : public testing::Test {
  KeptThreads kept_;
};

// Waits until two tasks are present, for ten seconds at most; returns true if they are.
bool BothCome(std::atomic<int>& present) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (++present; present < 2 && std::chrono::steady_clock::now() < end;) std::this_thread::yield();
  return present >= 2;
}

TEST_F(Parallel, ForRunsEveryTaskOnce) {
  for (int threads = 1; threads <= 4; ++threads) {
    SetThreads(threads);
    EXPECT_EQ(Threads(), threads);
    for (int64_t tasks : {0, 1, 2, 3, 4, 5, 7, 16, 31, 1009, 20011}) {
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

// All writes of a call must be visible when it returns, and a thread that is late for one call must
// not run its tasks during the next one. Such short calls make threads late all the time.
TEST_F(Parallel, ManyShortCallsDoNotMix) {
  SetThreads(4);
  int64_t bad = 0;
  for (int64_t call = 0; call < 20000; ++call) {
    const int64_t tasks = 1 + call % 9;
    int64_t result[9] = {};
    ParallelFor(tasks, [&](int64_t task, int) { result[task] += call + task; });
    for (int64_t i = 0; i < 9; ++i) bad += result[i] != (i < tasks ? call + i : 0);
  }
  EXPECT_EQ(bad, 0);
}

// No tasks remain when one thread is slow.
TEST_F(Parallel, TasksOfASlowThreadAreTakenByTheOthers) {
  SetThreads(3);
  for (const int64_t tasks : {2, 3, 7, 100}) {
    std::vector<std::atomic<int>> runs(static_cast<size_t>(tasks));
    std::atomic<int64_t> done = 0;
    int64_t before_first = 0;
    ParallelFor(tasks, [&](int64_t task, int) {
      ++runs[static_cast<size_t>(task)];
      // The first task, whichever thread has it, waits until the others have done all the rest.
      for (int i = 0; task == 0 && done < tasks - 1 && i < 100000; ++i) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
      if (task == 0) before_first = done;
      ++done;
    });
    EXPECT_EQ(before_first, tasks - 1);
    for (const std::atomic<int>& run : runs) EXPECT_EQ(run, 1);
  }
}

// The pauses let the threads fall asleep, some of them just as the next call begins.
TEST_F(Parallel, CallsReachThreadsThatSleep) {
  SetThreads(3);
  std::atomic<int64_t> sum = 0;
  for (int pause = 0; pause < 200; ++pause) {
    std::this_thread::sleep_for(std::chrono::microseconds(pause));
    ParallelFor(3, [&](int64_t task, int) { sum += task; });
  }
  EXPECT_EQ(sum, 600);
}

// Both tasks wait for each other: this returns only if a second thread takes part.
TEST_F(Parallel, TasksRunAtTheSameTime) {
  SetThreads(2);
  for (int call = 0; call < 100; ++call) {
    std::atomic<int> present = 0;
    ParallelFor(2, [&](int64_t, int) { ASSERT_TRUE(BothCome(present)); });
    EXPECT_EQ(present, 2);
  }
}

// Scratch memory by thread number is safe only if no two tasks with one number run at a time.
TEST_F(Parallel, NumbersAreExclusiveAndStayValidWhenThreadsChange) {
  std::atomic<int> bad = 0, work = 0;
  for (int call = 0; call < 300; ++call) {
    const int threads = 1 + call * 7 % 4;
    SetThreads(threads);
    for (int64_t tasks : {2, 11, 400}) {
      std::atomic<int> busy[4] = {};
      std::atomic<int64_t> runs = 0;
      ParallelFor(tasks, [&](int64_t, int thread) {
        if (thread < 0 || thread >= threads) {
          ++bad;
          return;
        }
        if (busy[thread].fetch_add(1) != 0) ++bad;
        for (int i = 0; i < 10; ++i) work += i;
        ++runs;
        --busy[thread];
      });
      if (runs != tasks) ++bad;
    }
  }
  EXPECT_EQ(bad, 0);
}

// A caller that finds the threads busy must still get its own work done, with numbers that are
// exclusive within its own call, and none of its work may be done by, or for, another caller.
TEST_F(Parallel, CallersDoNotDisturbEachOther) {
  SetThreads(3);
  std::atomic<int> bad = 0;
  std::vector<std::thread> callers;
  callers.reserve(4);
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&bad, caller] {
      for (int64_t call = 0; call < 1000; ++call) {
        const int64_t tasks = (call + caller) % 8;
        std::atomic<int> busy[3] = {};
        int64_t result[8] = {};
        ParallelFor(tasks, [&](int64_t task, int thread) {
          if (thread < 0 || thread >= 3 || busy[thread].fetch_add(1) != 0) ++bad;
          ParallelFor(2, [&](int64_t, int) { result[task] += caller + 1; });
          if (thread >= 0 && thread < 3) --busy[thread];
        });
        for (int64_t i = 0; i < 8; ++i) {
          if (result[i] != (i < tasks ? 2 * (caller + 1) : 0)) ++bad;
        }
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(bad, 0);
}

// A call in the destructor of a static object comes after the threads have ended.
TEST_F(Parallel, CallsWorkWhileTheProcessExits) {
  struct Late {
    ~Late() {
      int64_t sum = 0;
      ParallelFor(4, [&](int64_t task, int) { sum += task; });  // alone: no race
      if (sum != 6) std::abort();
      std::fputs("late call done", stderr);
    }
  };
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        static Late late;
        SetThreads(3);
        std::atomic<int64_t> sum = 0;
        ParallelFor(1000, [&](int64_t task, int) { sum += task; });
        std::exit(sum == 499500 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "late call done");
}

// exit must not wait for a thread that runs a task: that may be the one that called exit.
TEST_F(Parallel, ATaskMayEndTheProcess) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  for (int ending : {0, 1}) {
    EXPECT_EXIT(
        {
          SetThreads(2);
          ParallelFor(2, [&](int64_t, int thread) {
            if (thread == ending) std::exit(7);
            for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
          });
        },
        testing::ExitedWithCode(7), "");
  }
}

// A single task is a ParallelFor too: its calls must not use other threads' scratch.
TEST_F(Parallel, NestedForStaysOnItsThread) {
  for (int threads : {1, 3, 4}) {
    SetThreads(threads);
    for (const int64_t tasks : {1, 13}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(tasks) * 7);
      std::atomic<int> strays = 0;
      ParallelFor(tasks, [&](int64_t outer, int outer_thread) {
        int64_t expected = 0;
        const auto self = std::this_thread::get_id();
        ParallelFor(7, [&](int64_t inner, int inner_thread) {
          ++runs[static_cast<size_t>(outer * 7 + inner)];
          strays += inner_thread != outer_thread || inner != expected++ ||
                    std::this_thread::get_id() != self;
          std::this_thread::sleep_for(std::chrono::microseconds(100));  // lets others interleave
        });
      });
      for (const auto& count : runs) EXPECT_EQ(count, 1);
      EXPECT_EQ(strays, 0);
    }
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

bool Blocked(int signal) {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return sigismember(&mask, signal) == 1;
}

// Faults of the thread itself must still be delivered.
TEST_F(Parallel, NoHandlerRunsOnThreadsBesideTheCaller) {
  SetThreads(2);
  std::atomic<int> present = 0, bad = 0;
  ParallelFor(2, [&](int64_t, int thread) {
    bad += !BothCome(present) || Blocked(SIGALRM) != (thread == 1) || Blocked(SIGSEGV);
  });
  EXPECT_EQ(bad, 0);
}

// On the caller's thread, on others and in a nested one; the threads remain usable.
TEST_F(Parallel, WhatATaskThrowsIsThrownWhenAllHaveEnded) {
  for (const int threads : {1, 4}) {
    SetThreads(threads);
    for (const int64_t bad : {0, 7, 39}) {
      std::atomic<int> ended = 0;
      const auto run = [&] {
        ParallelFor(40, [&](int64_t task, int) {
          ParallelFor(2, [&](int64_t inner, int) {
            if (task == bad && inner == 1) throw std::bad_alloc();
          });
          ++ended;
        });
      };
      EXPECT_THROW(run(), std::bad_alloc);
      EXPECT_EQ(ended, 39);
      std::atomic<int> again = 0;
      ParallelFor(40, [&](int64_t, int) { ++again; });
      EXPECT_EQ(again, 40);
    }
  }
}

TEST_F(Parallel, ZeroThreadsAreRefused) {
  EXPECT_TRUE(Contains(ErrorOf([&] { SetThreads(0); }, ErrorKind::kUsage), "cannot use 0 threads"));
  EXPECT_TRUE(
      Contains(ErrorOf([&] { SetThreads(kMaxThreads + 1); }, ErrorKind::kUsage), "threads"));
}

TEST_F(Parallel, ACallKeepsTheNumberOfThreadsThatItBeganWith) {
  const KeptThreads kept;
  SetThreads(1);
  const auto highest = [] {
    std::atomic<int> number = 0;
    ParallelFor(64, [&](int64_t, int thread) {
      for (int seen = number; seen < thread && !number.compare_exchange_weak(seen, thread);)
        continue;
      std::this_thread::yield();
    });
    return number.load();
  };
  {
    const SteadyThreads steady;
    std::thread([] { SetThreads(5); }).join();
    EXPECT_EQ(Threads(), 1);
    EXPECT_EQ(highest(), 0);
    {
      const SteadyThreads inner;
      EXPECT_EQ(Threads(), 1);
    }
    EXPECT_EQ(Threads(), 1);
    SetThreads(3);  // what this thread sets itself applies at once
    EXPECT_EQ(Threads(), 3);
  }
  EXPECT_EQ(Threads(), 3);
  std::thread([] { SetThreads(5); }).join();
  EXPECT_EQ(Threads(), 5);
}

}  // namespace
}  // namespace folio
