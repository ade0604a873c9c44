#include "folio/run/run_directory.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>

#include "folio/io/file.h"
#include "folio/io/model_dir.h"
#include "folio/io/posix.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/warnings.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

class RunDirectories : public InTemporaryDirectory {
 protected:
  // Runs are told apart by a number that all of their parts hold; odd ones have a vocabulary.
  static void WriteParts(const fs::path& dir, int number) {
    const auto write = [&](const fs::path& path) {
      fs::create_directories(path.parent_path());
      std::ofstream(path) << number;
    };
    write(dir / kRunConfigFile);
    write(dir / kRunDataDir / "train.bin");
    write(dir / "best" / kConfigFile);
    write(dir / "best" / kWeightsFile);
    if (number % 2 == 1) write(dir / kRunTokenizerDir / "tokenizer.json");
  }

  // The number of the run, which must be whole.
  int MicroBatch(const fs::path& run) const {
    const std::string number = ReadFile(run / kRunConfigFile);
    const bool odd = std::stoi(number) % 2 == 1;
    for (const auto& [name, bytes] : FilesBelow(run)) {
      EXPECT_EQ(bytes, name == "mine" ? "kept" : number) << name;
    }
    EXPECT_EQ(FilesBelow(run).size(), odd ? 6u : 5u);
    return std::stoi(number);
  }

  fs::path Begin(int number) {
    const fs::path run = At("run");
    {
      NewRun first(run, false);
      WriteParts(first.path(), number);
      first.Begun();
    }
    std::ofstream(run / "mine") << "kept";
    return run;
  }
};

TEST_F(RunDirectories, AReplacementKilledAtAnyMomentLeavesOneOfTheTwoRuns) {
  const fs::path run = Begin(0);
  int number = 0, replaced = 0;
  // Long enough for the slowest machine to have replaced a run now and then.
  for (int kill_after = 0; kill_after < 120 || replaced <= 3; ++kill_after) {
    ASSERT_LT(kill_after, 5000) << "no run was ever replaced";
    const pid_t child = fork();
    if (child == 0) {
      for (int next = number + 1;; ++next) {
        NewRun fresh(run, true);
        WriteParts(fresh.path(), next);
        fresh.Begun();
      }
    }
    usleep(static_cast<useconds_t>(200 + kill_after * 97));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    // A run that has just begun has no checkpoint yet.
    EXPECT_TRUE(FindModelDir(run) != run || fs::exists(run / ".begun")) << "no model";
    {
      const RunLock lock(run);
      RecoverRun(run);
    }
    const int found = MicroBatch(run);
    ASSERT_GE(found, number);
    replaced += found > number ? 1 : 0;
    number = found;
    if (HasFailure()) return;
  }
}

// Each single step of a replacement may be the last.
TEST_F(RunDirectories, EveryStepOfAReplacementIsUndoneOrFinished) {
  const std::array parts = {kRunConfigFile, kRunDataDir, kBestDir};
  for (size_t moved = 0; moved <= parts.size(); ++moved) {
    for (const bool begun : {false, true}) {
      fs::remove_all(At("run"));
      const fs::path run = Begin(2);
      WriteParts(run / (begun ? ".begun" : ".new"), 4);
      fs::create_directory(run / ".old");
      for (size_t i = 0; i < (begun ? parts.size() : moved); ++i) {
        fs::rename(run / parts[i], run / ".old" / parts[i]);
      }
      for (size_t i = 0; begun && i < moved; ++i) {
        fs::rename(run / ".begun" / parts[i], run / parts[i]);
      }
      EXPECT_TRUE(begun || FindModelDir(run) != run);
      RecoverRun(run);
      EXPECT_EQ(MicroBatch(run), begun ? 4 : 2);
    }
  }
}

TEST_F(RunDirectories, ARunThatDoesNotBeginLeavesTheOldOneAndNoDirectoryOfItsOwn) {
  const fs::path run = Begin(1);
  for (const fs::path& out : {run, At("other")}) {
    NewRun fresh(out, true);
    WriteParts(fresh.path(), 2);
  }
  EXPECT_EQ(MicroBatch(run), 1);
  EXPECT_EQ(Names(), (Strings{"run"}));
}

TEST_F(RunDirectories, CheckpointsThatWereBeingReplacedAreBack) {
  const fs::path run = Begin(1);
  fs::rename(run / "best", run / ".best.old-77");
  EXPECT_EQ(FindModelDir(run), run / "best");
  fs::rename(run / "best", run / ".best.old-77");
  fs::create_directory(run / ".last.tmp-78");
  RecoverRun(run);
  EXPECT_EQ(MicroBatch(run), 1);
  EXPECT_FALSE(fs::exists(run / ".last.tmp-78"));
}

TEST_F(RunDirectories, TheSecondOfTwoIsRefusedByNameAndTheNextIsNot) {
  {
    const RunLock first(At(""));
    const std::string error = ErrorAndHelp([&] { RunLock second(At("")); }, ErrorKind::kUsage);
    const std::string own = std::to_string(getpid());
    EXPECT_TRUE(Contains(error, "is in use", "process " + own + " is", "kill " + own, "--out"));
    std::ofstream(At(".lock")) << "12 elsewhere\n";
    EXPECT_TRUE(Contains(ErrorOf([&] { RunLock second(At("")); }, ErrorKind::kUsage),
                         "process 12 on elsewhere"));
  }
  EXPECT_EQ(Names(), Strings{});
  { const RunLock next(At("")); }
}

TEST_F(RunDirectories, WithoutLocksThereIsOneWarning) {
  const Warnings warnings;
  {
    const RunLock lock(At(""), [](int, int) {
      errno = ENOLCK;
      return -1;
    });
  }
  EXPECT_EQ(Count(warnings.text(), "without locks"), 1u) << warnings.text();
  const auto broken = [](int, int) {
    errno = EIO;
    return -1;
  };
  EXPECT_TRUE(
      Contains(ErrorOf([&] { RunLock lock(At(""), broken); }, ErrorKind::kRuntime), ".lock"));
}

// Checkpoints share files: their bytes are freed once.
TEST_F(RunDirectories, WhatHasTwoNamesIsFreedOnce) {
  for (const char* checkpoint : {"last", "best"}) fs::create_directories(At("run") / checkpoint);
  std::ofstream(At("run/best/shared")) << std::string(1000, 'x');
  fs::create_hard_link(At("run/best/shared"), At("run/last/shared"));
  std::ofstream(At("run/last/own")) << std::string(10, 'x');
  const NewRun run(At("run"), /*overwrite=*/true);
  EXPECT_EQ(run.ReplacedBytes(), 1010u);
}

TEST_F(RunDirectories, ADiskWithoutRoomForACheckpointIsRefusedAndATightOneWarnedOf) {
  const Warnings warnings;
  const auto disk = [](uintmax_t available) {
    return fs::space_info{.capacity = 1 << 30, .free = available, .available = available};
  };
  RequireRoom("r", disk(2000), 0, 1000, 2);
  RequireRoom("r", disk(500), 1500, 1000, 2);
  RequireRoom("r", {}, 0, 1000, 2);
  RequireRoom("r", disk(static_cast<uintmax_t>(-1)), 0, 1000, 2);
  EXPECT_EQ(warnings.text(), "");
  RequireRoom("r", disk(1999), 0, 1000, 2);
  EXPECT_TRUE(Contains(warnings.text(), "room for 2.00 KB", "takes 1.00 KB"));
  EXPECT_TRUE(Contains(
      ErrorOf([&] { RequireRoom("r", disk(999), 0, 1000, 2); }, ErrorKind::kRuntime), "no room"));
}

}  // namespace
}  // namespace folio
