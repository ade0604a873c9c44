#include "folio/base/fork.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "folio/base/thread_pool.h"
#include "tests/kit/forked.h"
#include "tests/kit/sanitized.h"
#include "tests/kit/threads.h"

namespace folio {
namespace {

// Calls `f` while another thread runs `hold`, which gets a function that waits until f is done.
template <class Hold, class F>
void WhileHeld(Hold&& hold, F&& f) {
  std::atomic<bool> held = false, done = false;
  std::thread holder([&] {
    hold([&] {
      held = true;
      while (!done) std::this_thread::yield();
    });
  });
  while (!held) std::this_thread::yield();
  f();
  done = true;
  holder.join();
}

TEST(ForkMutexes, LetInOneThreadAtATime) {
  ForkMutex mutex;
  int64_t count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 20000; ++k) {
        const std::lock_guard lock(mutex);
        count = count + 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 80000);
  EXPECT_FALSE(mutex.HeldHere());
  const std::lock_guard lock(mutex);
  EXPECT_TRUE(mutex.HeldHere());
  std::thread([&] {
    EXPECT_FALSE(mutex.HeldHere());
    EXPECT_FALSE(mutex.try_lock());
  }).join();
}

TEST(ForkMutexes, AreFreeInAChildWhereThoseWhoHeldThemAreNot) {
  ForkMutex others, own;
  own.lock();
  WhileHeld(
      [&](auto&& wait) {
        const std::lock_guard lock(others);
        wait();
      },
      [&] {
        EXPECT_FALSE(others.try_lock());
        const auto of_child = [&]() -> std::string {
          if (!own.HeldHere() || own.try_lock()) return "what the thread holds itself is free";
          if (others.HeldHere()) return "a thread has the number of another";
          if (own.Abandoned() || !others.Abandoned() || !others.lock() || others.Abandoned()) {
            return "not known to be abandoned until it is locked";
          }
          if (!others.HeldHere()) return "not held";
          // A child of the child: its only thread is the one that forked.
          const std::string said = InForkedChild([&] {
            return own.HeldHere() && others.HeldHere() && !others.try_lock() ? "fine" : "lost";
          });
          others.unlock();
          return others.try_lock() ? said : "not free again";
        };
        EXPECT_FALSE(others.Abandoned());
        EXPECT_EQ(InForkedChild(of_child), "fine");
        EXPECT_FALSE(others.try_lock());
      });
  EXPECT_TRUE(others.try_lock());
}

// How many threads shared the tasks.
size_t ThreadsOfACall() {
  std::atomic<int> met = 0;
  std::mutex mutex;
  std::set<std::thread::id> threads;
  ParallelFor(2, [&](int64_t, int) {
    ++met;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (met < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  return threads.size();
}

TEST(ThreadPools, OfChildrenHaveThreadsOfTheirOwnWhateverTheParentDoes) {
  if (!kChildrenHaveThreads) GTEST_SKIP() << "not under ThreadSanitizer";
  const KeptThreads kept;
  SetThreads(2);
  EXPECT_EQ(ThreadsOfACall(), 2u);
  EXPECT_EQ(InForkedChild([] { return std::to_string(ThreadsOfACall()); }), "2");
  WhileHeld(
      [](auto&& wait) {
        ParallelFor(2, [&](int64_t task, int) {
          if (task == 0) wait();
        });
      },
      [] { EXPECT_EQ(InForkedChild([] { return std::to_string(ThreadsOfACall()); }), "2"); });
}

// The end of a process waits only for its own threads.
TEST(ThreadPools, OfChildrenEndWithThem) {
  // In a child LeakSanitizer reports the memory of its parent's threads as lost.
  if (kSanitized || !kChildrenHaveThreads) GTEST_SKIP() << "not under sanitizers";
  const KeptThreads kept;
  SetThreads(2);
  EXPECT_EQ(ThreadsOfACall(), 2u);
  for (const bool computes : {false, true}) {
    EXPECT_EXIT(
        {
          alarm(60);
          if (computes) ThreadsOfACall();
          std::exit(7);
        },
        testing::ExitedWithCode(7), "");
  }
}

}  // namespace
}  // namespace folio
