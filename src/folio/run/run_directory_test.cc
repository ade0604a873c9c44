#include "folio/run/run_directory.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>

#include "folio/corpus/prepare.h"
#include "folio/io/file.h"
#include "folio/io/model_dir.h"
#include "folio/io/posix.h"
#include "folio/run/training_run.h"
#include "folio/run/watchdog.h"
#include "folio/train/train_state.h"
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
  EXPECT_TRUE(Contains(warnings.text(), "has 2.00 KB free", "takes 1.00 KB"));
  EXPECT_TRUE(
      Contains(ErrorOf([&] { RequireRoom("r", disk(999), 0, 1000, 2); }, ErrorKind::kRuntime),
               "not enough disk space"));
}

class Watching : public InTemporaryDirectory {
 protected:
  Watching() {
    WriteTokens("train.bin", 5000, 1);
    WriteTokens("val.bin", 500, 2);
  }

  // 16-bit ids from `first` on.
  void WriteTokens(const std::string& name, int count, int first) {
    fs::create_directories(At("data"));
    std::string bytes;
    for (int i = 0; i < count; ++i) {
      bytes += static_cast<char>((first + i) % 200);
      bytes += '\0';
    }
    WriteFileAtomically(At("data") / name, bytes);
  }
  Dataset Data() const { return Dataset(At("data").string(), 256); }
  Watchdog Watched(const Dataset& data, const char* dir = "data") {
    return {At(""), 1000, data, At(dir), [this] { return now_; }};
  }
  std::string Told() { return told_.Take(); }

  Warnings told_;
  Watchdog::Reading now_ = {.memory = {.total = 64000, .available = 30000},
                            .disk = {.capacity = 9000, .free = 5000, .available = 5000}};
};

TEST_F(Watching, WarnsOfMemoryAndDiskBeforeTheyAreUsedUp) {
  Watchdog watchdog = Watched(Data());
  watchdog.Look();
  EXPECT_EQ(Told(), "");
  now_.memory.available = 1500;
  watchdog.Look();
  EXPECT_TRUE(Contains(Told(),
                       "memory is nearly full: 1.50 KB of 64.00 KB are free, and the system may "
                       "kill this process; close other programs"));
  now_.disk.available = 999;
  watchdog.Look();
  EXPECT_TRUE(
      Contains(told_.text(),
               "' is nearly full: 999 B free, the next checkpoint takes 1.00 KB; free some space"));
  EXPECT_EQ(Count(Told(), "\n"), 1u) << "memory was told of";
  now_.memory.available = 3000;
  watchdog.Look();
  EXPECT_EQ(Told(), "");
  now_.memory.available = 1500;
  watchdog.Look();
  EXPECT_TRUE(Contains(Told(), "memory is nearly full:"));
}

TEST_F(Watching, KnowsNothingWhereTheSystemDoesNotTell) {
  now_ = {};
  Watchdog watchdog = Watched(Data());
  watchdog.Look();
  now_.disk = {.capacity = static_cast<uintmax_t>(-1),
               .free = static_cast<uintmax_t>(-1),
               .available = static_cast<uintmax_t>(-1)};
  watchdog.Look();
  EXPECT_EQ(Told(), "");
}

TEST_F(Watching, TellsOfTokensThatChange) {
  Watchdog watchdog = Watched(Data());
  const fs::path file = At("data/train.bin");
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(2));
  watchdog.Look();
  EXPECT_TRUE(Contains(
      Told(),
      "train.bin was changed during training: the results match neither the old data nor the new"));
  watchdog.Look();
  EXPECT_EQ(Told(), "");
  fs::remove(At("data/val.bin"));
  watchdog.Look();
  EXPECT_TRUE(Contains(Told(), "val.bin was removed"));
}

// Whatever the file's time says.
TEST_F(Watching, TellsOfTokensThatChangedUnseenWhenItEnds) {
  const Dataset data = Data();
  const fs::path file = At("data/train.bin");
  const auto time = fs::last_write_time(file);
  {
    Watchdog watchdog = Watched(data);
    watchdog.Finish(data);
    EXPECT_EQ(Told(), "");
    std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(100).put('\7');
    fs::last_write_time(file, time);
    watchdog.LookAtData();
    EXPECT_EQ(Told(), "");
    watchdog.Finish(data);
    EXPECT_TRUE(Contains(Told(), "the tokens in ",
                         "data were changed during training: the results match neither the old "
                         "data nor the new"));
  }
  // Another file in its place, as a copy that keeps times makes it.
  Watchdog watchdog = Watched(data);
  const auto before = fs::last_write_time(file);
  WriteTokens("train.bin", 5000, 9);
  fs::last_write_time(file, before);
  watchdog.LookAtData();
  EXPECT_TRUE(Contains(
      Told(),
      "train.bin was changed during training: the results match neither the old data nor the new"));
  watchdog.Finish(data);
  EXPECT_EQ(Told(), "");
}

// As the data of a new run does when the run begins.
TEST_F(Watching, TokensThatMovedWithTheirRunAreWatchedWhereTheyAre) {
  const Dataset data = Data();
  fs::rename(At("data"), At("moved"));
  Watchdog watchdog = Watched(data, "moved");
  watchdog.Look();
  EXPECT_EQ(Told(), "");
  fs::remove(At("moved/val.bin"));
  watchdog.Look();
  EXPECT_TRUE(Contains(Told(), "moved/val.bin was removed"));
}

TEST_F(Watching, LooksAtThisMachineToo) {
  Watchdog watchdog(At(""), 1, Data(), At("data"));
  watchdog.Look();
  watchdog.Step();
  EXPECT_EQ(Told(), "");
}

TEST_F(Watching, AnotherTextThanTheRunBeganWithIsToldLoudly) {
  CheckFingerprint(At(""), Data());
  const std::string kept = ReadFile(At("") / kRunFingerprintFile);
  CheckFingerprint(At(""), Data());
  EXPECT_EQ(Told(), "");
  WriteTokens("val.bin", 500, 3);
  CheckFingerprint(At(""), Data());
  EXPECT_TRUE(Contains(Told(), "the data has changed since the run started:"));
  EXPECT_EQ(ReadFile(At("") / kRunFingerprintFile), kept);
}

// Runs of the smallest preset on data that was prepared before.
class DataChecks : public InTemporaryDirectory {
 protected:
  DataChecks() {
    std::string text;
    for (int i = 0; i < 3000; ++i) text += static_cast<char>('a' + i * i % 23);
    WriteFileAtomically(At("text.txt"), text);
    PrepareDataset({.files = {At("text.txt").string()}, .out = At("data").string()});
  }
  // Another token of the vocabulary in the place of one.
  void Damage(const std::string& file) const {
    std::fstream stream(At("data") / file, std::ios::in | std::ios::out | std::ios::binary);
    const int byte = stream.seekg(40).get();
    stream.seekp(40).put(static_cast<char>(byte == 3 ? 4 : 3));
  }
  // Calls `begun` with what has been told. It may damage data, too.
  void Train(int64_t at_once, const std::string& steps = "40",
             const std::function<void(const StepMetrics&)>& on_step = {},
             const std::function<bool()>& stop = {}) const {
    RunSettings settings;
    settings.UsePreset("debug");
    for (const auto& [key, value] :
         {std::pair("max_steps", steps.c_str()), std::pair("checkpoint_every", "5"),
          std::pair("eval_every", "0"), std::pair("threads", "1")}) {
      settings.Set(std::string("train.") + key, value);
    }
    TrainingRun run(settings,
                    {.data = {At("data").string()}, .out = At("run"), .hashed_at_once = at_once});
    run.Train({.on_step = on_step, .stop_requested = stop});
  }

  const int64_t kAtOnce = TrainingRunOptions{}.hashed_at_once;
  Warnings told_;
};

TEST_F(DataChecks, SmallDataIsCheckedBeforeARunBegins) {
  Train(kAtOnce, "2");
  fs::remove_all(At("run"));
  for (const char* file : {"train.bin", "val.bin"}) {
    Damage(file);
    EXPECT_TRUE(Contains(ErrorAndHelp([&] { Train(kAtOnce); }),
                         std::string(file) + ": the tokens have changed since they were prepared",
                         "their hash in dataset.json is", "prepare the data again"));
    EXPECT_FALSE(fs::exists(At("run")));
    PrepareDataset(
        {.files = {At("text.txt").string()}, .out = At("data").string(), .overwrite = true});
  }
  // Tokens of others have no hashes.
  fs::remove(At("data/dataset.json"));
  Damage("train.bin");
  Train(kAtOnce, "2");
}

TEST_F(DataChecks, LargeDataIsCheckedBesideTraining) {
  Train(0, "20");
  EXPECT_TRUE(Contains(told_.Take(), "data: all tokens match their hashes"));
  fs::remove_all(At("run"));
  Damage("val.bin");
  EXPECT_TRUE(
      Contains(ErrorAndHelp([&] { Train(0, "20000"); }),
               "val.bin: the tokens have changed since they were prepared",
               "; then start the run again with --overwrite: it has trained on damaged tokens"));
  EXPECT_TRUE(fs::exists(At("run/metrics.jsonl")));
  fs::remove_all(At("run"));
  // The last checkpoint waits for it, however soon it comes.
  Damage("val.bin");
  EXPECT_TRUE(Contains(ErrorOf([&] { Train(0, "1"); }),
                       ": the tokens have changed since they were prepared"));
  EXPECT_FALSE(fs::exists(At("run/last")));
}

TEST_F(DataChecks, AreNotWaitedForWhereARunIsStopped) {
  DataCheck check(At("data").string());
  check.Wait([] { return true; });
  Damage("train.bin");
  DataCheck damaged(At("data").string());
  EXPECT_TRUE(Contains(ErrorOf([&] { damaged.Wait([] { return false; }); }),
                       "train.bin: the tokens have changed"));
  damaged.Look();  // once
}

// Not only every half a minute.
TEST_F(DataChecks, ChangedDataIsLookedForAtCheckpointsAndAtTheEnd) {
  std::string at_checkpoint;
  const auto change = [&](const StepMetrics& m) {
    if (m.step == 2) Damage("train.bin");
    if (m.step == 39) at_checkpoint = told_.text();
  };
  Train(kAtOnce, "40", change);
  EXPECT_EQ(Count(told_.Take(),
                  "train.bin was changed during training: the results match neither the old data "
                  "nor the new"),
            1u);
  EXPECT_TRUE(Contains(at_checkpoint, "train.bin was changed"));
  fs::remove_all(At("run"));
  PrepareDataset(
      {.files = {At("text.txt").string()}, .out = At("data").string(), .overwrite = true});
  const auto time = fs::last_write_time(At("data/train.bin"));
  const auto unseen = [&](const StepMetrics& m) {
    if (m.step != 2) return;
    Damage("train.bin");
    fs::last_write_time(At("data/train.bin"), time);
  };
  Train(kAtOnce, "40", unseen);
  EXPECT_TRUE(
      Contains(told_.Take(),
               "were changed during training: the results match neither the old data nor the new"));
}

}  // namespace
}  // namespace folio
