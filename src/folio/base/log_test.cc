#include "folio/base/log.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/kit/forked.h"

namespace folio {
namespace {

TEST(Log, FirstSinkWritesWholeLinesToStderr) {
  EXPECT_EXIT(
      {
        LogWarning("careful: 100%s");
        std::_Exit(0);  // no leak check while the other tests' threads exist
      },
      testing::ExitedWithCode(0), "^careful: 100%s\n$");
}

TEST(Log, AMessageIsALine) {
  EXPECT_EXIT(
      {
        LogWarning("GET /a\nerror: forged \x1b[2J");
        std::_Exit(0);
      },
      testing::ExitedWithCode(0), "^GET /a.u000aerror: forged .u001b.2J\n$");
}

TEST(Log, MessagesBelowTheLevelAreDropped) {
  std::vector<std::string> seen;
  SetLogSink([&](LogLevel, std::string_view message) { seen.emplace_back(message); });
  Log(LogLevel::kDebug, "a");
  Log(LogLevel::kInfo, "b");
  SetLogLevel(LogLevel::kWarning);
  Log(LogLevel::kInfo, "c");
  LogWarning("d");
  Log(LogLevel::kError, "e");
  SetLogLevel(LogLevel::kDebug);
  Log(LogLevel::kDebug, "f");
  EXPECT_EQ(seen, (std::vector<std::string>{"b", "d", "e", "f"}));
}

TEST(Log, TheSinkIsCalledByOneThreadAtATime) {
  std::vector<int> lengths;  // unguarded: the logger's lock must protect it
  SetLogSink([&](LogLevel, std::string_view message) {
    lengths.push_back(static_cast<int>(message.size()));
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 2000; ++i) LogWarning("four");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lengths, std::vector<int>(8000, 4));
}

// A child process can log even if a thread that was logging does not exist in it.
TEST(Log, OfAForkedChildWaitsForNobody) {
  std::atomic<bool> held = false, done = false;
  SetLogSink([&](LogLevel, std::string_view) {
    held = true;
    while (!done) std::this_thread::yield();
  });
  std::thread other([] { Log(LogLevel::kError, "held"); });
  while (!held) std::this_thread::yield();
  EXPECT_EQ(InForkedChild([] {
              std::string heard;
              SetLogSink([&](LogLevel, std::string_view text) { heard = text; });
              Log(LogLevel::kError, "heard");
              return heard;
            }),
            "heard");
  done = true;
  other.join();
  SetLogSink([](LogLevel, std::string_view) {});
}

}  // namespace
}  // namespace folio
