// Runs that are signalled, killed, started twice and restarted, through the real program.
// docs/reliability.md has a table of the signals' effects.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <numeric>

#include "folio/commands/train/test_train.h"
#include "folio/train/run_log.h"
#include "folio/train/train_state.h"
#include "tests/kit/sanitized.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

class Signals : public TrainTest {
 protected:
  // Shell text that starts a long run and waits for its first steps; $p is its process.
  std::string Started(const std::string& more = "") const {
    return "$F " + Words(more + " --max-steps 1000000 --no-config") + " >/dev/null & p=$!\n" +
           Awaited("[ -s run/metrics.jsonl ]");
  }
  ProgramRun Shell(const std::string& text) const { return RunShell(At(""), text); }
  std::vector<int64_t> Steps() const {
    std::vector<int64_t> steps;
    for (const StepMetrics& m : ReadRunLog(At("run"))) steps.push_back(m.step);
    return steps;
  }
  // This many steps are logged, from 0 on.
  void ExpectSteps(int64_t count) const {
    std::vector<int64_t> all(static_cast<size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(Steps(), all);
  }
  void ExpectNothingAside() const {
    for (const auto& entry : fs::directory_iterator(At("run"))) {
      EXPECT_FALSE(entry.path().filename().string().starts_with(".")) << entry.path();
    }
  }
  // The run made some more steps, saved them all, and continues from there.
  void ExpectGoesOn() const {
    const int64_t step = SavedStep(At("run/last"));
    EXPECT_GT(step, 0);
    ExpectSteps(step);
    Well(RunFolio(Resumed("--max-steps " + std::to_string(step + 2))));
  }
};

TEST_F(Signals, ThatAskForAnEndLeaveACheckpointAndTheirStatus) {
  for (const auto& [name, number] :
       {std::pair("INT", SIGINT), std::pair("TERM", SIGTERM), std::pair("HUP", SIGHUP),
        std::pair("QUIT", SIGQUIT), std::pair("ALRM", SIGALRM), std::pair("XCPU", SIGXCPU)}) {
    fs::remove_all(At("run"));
    Ended(128 + number, Shell(Started() + "kill -" + name + " $p; wait $p"));
    ExpectGoesOn();
    if (HasFailure()) return;
  }
}

// Signals that the kernel repeats do not end the process at once.
TEST_F(Signals, ASecondOneEndsAtOnceUnlessItComesByItself) {
  for (const auto& [name, number] : {std::pair("HUP", SIGHUP), std::pair("XCPU", SIGXCPU)}) {
    fs::remove_all(At("run"));
    const std::string kill = std::string("kill -") + name + " $p\n";
    const ProgramRun run =
        Ended(128 + number, Shell(Started() + kill + kill + "sleep 0.01\n" + kill + "wait $p"));
    EXPECT_TRUE(fs::exists(At("run/last/train_state"))) << name;
  }
}

TEST_F(Signals, ThatAskForACheckpointGetOneAndTrainingGoesOn) {
  for (const std::string name : {"USR1", "USR2"}) {
    fs::remove_all(At("run"));
    const ProgramRun run =
        Ended(128 + SIGTERM, Shell(Started("train.checkpoint_every=1000000 --eval-every 0") +
                                   "[ ! -e run/last ] || echo early\n" + "kill -" + name + " $p\n" +
                                   Awaited("[ -e run/last/train_state ]") +
                                   "cp -r run/last then; n=$(wc -l <run/metrics.jsonl)\n" +
                                   Awaited("[ $(wc -l <run/metrics.jsonl) -gt $((n+5)) ]") +
                                   "kill -TERM $p; wait $p"));
    EXPECT_EQ(run.out, "") << name;
    EXPECT_GT(SavedStep(At("run/last")), SavedStep(At("then")) + 4) << name;
    fs::remove_all(At("then"));
    ExpectGoesOn();
  }
}

TEST_F(Signals, ALimitOfCpuTimeEndsWithACheckpoint) {
  Ended(128 + SIGXCPU, Shell("ulimit -S -t 1\n" + Started() + "wait $p"));
  ExpectGoesOn();
}

// Like a full disk: training continues, and loses nothing if the limit is raised again.
TEST_F(Signals, ALimitOfTheSizeOfFilesIsAFullDisk) {
  if (kSanitized) GTEST_SKIP() << "sanitizers write files of their own";
  const std::string state = "$(cat run/last/train_state/state.json)";
  // The limit would also apply to a file with the output.
  const ProgramRun run =
      Ended(128 + SIGTERM,
            Shell("mkfifo told; tee seen <told >&2 & t=$!\n" +
                  Started("train.checkpoint_every=20 --eval-every 0 2>told") +
                  Awaited("[ -e run/last ]") + "prlimit --pid $p --fsize=100:unlimited\n" +
                  Awaited("grep -q 'no checkpoint of' seen") +
                  Awaited("grep -q 'lines are kept' seen") + "kill -0 $p || echo gone\nn=\"" +
                  state + "\"; prlimit --pid $p --fsize=unlimited:unlimited\n" +
                  Awaited("[ \"$n\" != \"" + state + "\" ]") +
                  "kill -TERM $p; wait $p; s=$?; wait $t; exit $s"));
  EXPECT_EQ(run.out, "");
  EXPECT_TRUE(Contains(run.err, "checkpoint of step", "File too large",
                       "metrics.jsonl: File too large; its lines are kept"));
  ExpectGoesOn();
}

TEST_F(Signals, ALimitOfTheSizeOfFilesIsAnErrorOfEveryCommand) {
  if (kSanitized) GTEST_SKIP() << "sanitizers write files of their own";
  Well(Train());
  for (const std::string words : {"tokenizer train text.txt --vocab-size 300 --out made",
                                  "plot run --out made.svg", "data prepare text.txt --out made"}) {
    const ProgramRun run = Ended(1, Shell("ulimit -f 1; $F " + words));
    EXPECT_TRUE(Contains(run.err, "File too large", "ulimit -f")) << words << run.err;
    EXPECT_FALSE(fs::exists(At("made")) || fs::exists(At("made.svg"))) << words;
  }
}

using CrashTest = Signals;

TEST_F(CrashTest, ASecondTrainingInOneRunIsRefusedAndReadersAreNot) {
  const auto tried = [](const std::string& name, const std::string& words) {
    return "$F " + words + " >/dev/null; echo " + name + " $? >&2\n";
  };
  const ProgramRun both = Shell(
      Started("--eval-every 50") + Awaited("[ -e run/last ]") + "echo $p >pid\n" +
      tried("plain", Words("")) + tried("overwrite", Words("--overwrite")) +
      tried("resume", Resumed("")) + tried("generate", "generate --max-tokens 2 --model run") +
      tried("inspect", "inspect model --model run") + tried("plot", "plot run --out plot.svg") +
      "kill -9 $p; wait $p; echo killed $? >&2\n");
  std::string process = ReadFile(At("pid"));
  process.pop_back();
  EXPECT_TRUE(Contains(both.err, "plain 2", "overwrite 2", "resume 2", "generate 0", "inspect 0",
                       "plot 0", "killed 137"));
  EXPECT_EQ(Count(both.err, "process " + process + " is training in it"), 3u) << both.err;
  const int64_t steps = std::ssize(Steps());
  ExpectSteps(steps);
  // The kernel has released the lock.
  Well(RunFolio(Resumed("--max-steps " + std::to_string(steps + 5))));
  EXPECT_FALSE(fs::exists(At("run/.lock")));
}

TEST_F(CrashTest, AReplacementThatIsKilledLeavesTheOldRunOrTheNew) {
  Well(Train("--seed 3"));
  fs::rename(At("run"), At("old"));
  WriteFileAtomically(At("new.txt"), std::string(3000, 'x') + ReadFile(data_));
  const std::string words = "$F " + Words("--overwrite --seed 4 --data " + At("new.txt").string());
  Well(Shell(words));
  fs::rename(At("run"), At("new"));
  const auto data_of = [&](const char* run) { return FilesBelow(At(run) / "data"); };
  int old_ones = 0;
  for (int i = 0; i < 20; ++i) {
    fs::remove_all(At("run"));
    fs::copy(At("old"), At("run"), fs::copy_options::recursive);
    // The first is killed before it does anything, even on a fast machine.
    const std::string milliseconds = std::to_string(1000 + 4 * i).substr(1);
    Shell(words + " & p=$!; sleep 0." + milliseconds + "; kill -9 $p; wait $p");
    const ProgramRun text = Shell("$F generate --max-tokens 2 --model run");
    Ended(2, RunFolio(Words("")));
    const bool is_old = data_of("run") == data_of("old");
    old_ones += is_old ? 1 : 0;
    EXPECT_TRUE(is_old || data_of("run") == data_of("new"));
    EXPECT_TRUE(Contains(ReadFile(At("run/config.toml")), is_old ? "seed = 3" : "seed = 4"));
    EXPECT_TRUE(!is_old || FilesBelow(At("run/last")) == FilesBelow(At("old/last")));
    const bool saved = fs::exists(At("run/last"));
    EXPECT_TRUE(text.status == 0 || !saved) << text.err;
    Well(i % 2 == 0 && saved ? RunFolio(Resumed("--max-steps 6")) : Shell(words));
    ExpectNothingAside();
    if (HasFailure()) return;
  }
  EXPECT_GT(old_ones, 0);
}

TEST_F(CrashTest, OneThatWasKilledBeforeItBeganIsBegunAgainAndTheAdviceSaysSo) {
  const auto prepared = [&] {
    fs::create_directories(At("run/.new/data"));
    WriteFileAtomically(At("run/.new/data/train.bin"), "half");
  };
  prepared();
  ExpectError(3, Resumed(""), "' contains no run to resume", "remove --resume to start a run");
  prepared();
  Well(Train());
  EXPECT_FALSE(fs::exists(At("run/.new")));
  // Data without settings, left by somebody.
  for (const char* part : {"last", "best", "config.toml"}) fs::remove_all(At("run") / part);
  ExpectError(3, Resumed(""), "' contains no run to resume", "--overwrite");
  ExpectError(2, Words(""), "' already contains a run", "--overwrite");
}

TEST_F(CrashTest, AHangUpThatIsIgnoredStopsNothing) {
  Ended(143,
        Shell("trap '' HUP\n" + Started("") + "kill -HUP $p; sleep 0.2; kill -TERM $p; wait $p"));
}

TEST_F(CrashTest, ADamagedLogDoesNotKeepARunFromGoingOn) {
  Well(Train("--sample-every 1"));
  const std::string log = ReadFile(At("run/metrics.jsonl"));
  const std::string samples = ReadFile(At("run/samples.jsonl"));
  const size_t second = log.find('\n') + 1;
  WriteFileAtomically(At("run/metrics.jsonl"), log.substr(0, second) + std::string(20, '\0') +
                                                   "\n" + log.substr(second) +
                                                   "{\"step\":3,\"lo\nno line at all\n");
  // The state that a killed process leaves, which was ahead of its checkpoint.
  WriteFileAtomically(At("run/samples.jsonl"),
                      samples + "{\"event\":\"sample\",\"step\":5,\"text\":\"again\"}\n{\"torn");
  EXPECT_TRUE(Contains(Well(RunFolio(Resumed("--max-steps 6"))).err,
                       "metrics.jsonl:2: damaged line, moved to", "metrics.jsonl:7",
                       "metrics.damaged.jsonl"));
  ExpectSteps(7);
  EXPECT_TRUE(Contains(ReadFile(At("run/metrics.damaged.jsonl")), "no line at all\n"));
  const std::string after = ReadFile(At("run/samples.jsonl"));
  EXPECT_TRUE(after.starts_with(samples));
  for (const char* step : {"\"step\":4", "\"step\":5", "\"step\":6"}) {
    EXPECT_EQ(Count(after, step), 1u) << after;
  }
  EXPECT_FALSE(Contains(after, "again"));
}

class Supervised : public Signals {
 protected:
  std::string Command(const std::string& more = "") const { return Words(more + " --resume auto"); }
};

TEST_F(Supervised, BeginsGoesOnAndEnds) {
  EXPECT_TRUE(Contains(Well(RunFolio(Command())).err, "contains no run; starting one"));
  const auto first = FilesBelow(At("run"));
  EXPECT_TRUE(Contains(Well(RunFolio(Command())).err,
                       "the run has completed its 4 steps; continue with --max-steps"));
  EXPECT_EQ(FilesBelow(At("run")), first);
  const ProgramRun on = Well(RunFolio(Command("--max-steps 6")));
  EXPECT_TRUE(Contains(on.err, "resuming at step 4"));
  EXPECT_EQ(ReadRunLog(At("run")).back().step, 6);
  ExpectNothingAside();
}

TEST_F(Supervised, WhateverHasEndedARunIsToldAndIsNoFailure) {
  for (const std::string ends :
       {"train.max_tokens=64",
        "--patience 2 --max-steps 50 --set train.learning_rate=0 train.min_lr=0 "
        "train.eval_every=1"}) {
    fs::remove_all(At("run"));
    Well(RunFolio(Command(ends)));
    const auto model = ReadFile(At("run/last/model.safetensors"));
    const int64_t step = ReadRunLog(At("run")).back().step;
    const ProgramRun again = Well(RunFolio(Command(ends)));
    EXPECT_TRUE(Contains(again.out + again.err,
                         ends.starts_with("--patience") ? "stopped early: " : "limit reached: "))
        << again.out << again.err;
    EXPECT_EQ(ReadRunLog(At("run")).back().step, step) << ends;
    EXPECT_EQ(ReadFile(At("run/last/model.safetensors")), model) << ends;
  }
}

// A run that has started, and one that has not, before its first checkpoint.
TEST_F(Supervised, WhatWasKilledBeforeACheckpointBeginsAgain) {
  fs::create_directories(At("run/.new/data"));
  WriteFileAtomically(At("run/.new/data/train.bin"), "half");
  WriteFileAtomically(At("run/.lock"), "1 elsewhere\n");
  Well(RunFolio(Command()));
  ExpectNothingAside();
  const auto whole = FilesBelow(At("run/last"));
  for (const char* part : {"last", "best", "steps", "loss.svg"}) fs::remove_all(At("run") / part);
  const ProgramRun again = Well(RunFolio(Command()));
  EXPECT_TRUE(Contains(again.err, "ended before its first checkpoint; starting it again"));
  EXPECT_EQ(FilesBelow(At("run/last")), whole);
  EXPECT_EQ(ReadRunLog(At("run")).size(), 5u);
  ExpectNothingAside();
}

TEST_F(Supervised, WhatIsNoRunIsNotReplaced) {
  fs::create_directories(At("run/data"));
  WriteFileAtomically(At("run/data/mine"), "mine");
  ExpectError(2, Command("--quiet"), "' already contains a run");
  EXPECT_EQ(ReadFile(At("run/data/mine")), "mine");
  fs::remove_all(At("run"));
  // A run whose checkpoints are all damaged is somebody's work, too.
  Well(RunFolio(Command()));
  fs::remove_all(At("run/steps"));
  std::ofstream(At("run/last/model.safetensors"), std::ios::app) << "more";
  ExpectError(3, Command("--max-steps 6"), "model.safetensors is damaged");
  EXPECT_TRUE(fs::exists(At("run/last")));
  ExpectError(2, Command("--overwrite"), "--resume and --overwrite");
  ExpectError(2, Words("--resume maybe"), "--resume", "'maybe'", "auto");
}

// The flags for starting a run are on the command line every time.
TEST_F(Supervised, TheBeginningIsSaidAgainAndCountsOnce) {
  Well(Train());
  fs::rename(At("run"), At("model"));
  const auto command = [&](const std::string& more) {
    return "train --resume auto --data " + data_ + " --out " + At("run").string() + " --init " +
           At("model").string() + " --lora 2 --batch 2 " + more;
  };
  Well(RunFolio(command("--max-steps 2")));
  const ProgramRun on = Well(RunFolio(command("--max-steps 4")));
  EXPECT_TRUE(Contains(on.err, "resuming at step 2"));
  fs::remove_all(At("run"));
  const ProgramRun budget = Well(RunFolio(Command("--preset debug --budget 2s")));
  Well(RunFolio(Command("--preset char-cpu --budget 3s")));
}

// Killed at any moment, it reaches the same bytes as an undisturbed run.
TEST_F(Supervised, KilledAtAnyMomentItComesToTheSameEnd) {
  const std::string more = "train.eval_every=10 --max-steps 40 --threads 1 --no-config";
  Well(Train(more));
  fs::rename(At("run"), At("whole"));
  std::string killed;
  int kills = 0;
  for (int i = 0; i < 60; ++i) {
    const ProgramRun run =
        RunShell(At(""), "$F " + Command(more) + " >/dev/null 2>err & p=$!\nsleep 0.0" +
                             std::to_string(10 + (i * 7) % 80) +
                             "\nkill -9 $p; wait $p; s=$?; cat err >&2; exit $s");
    if (run.status == 0) break;
    ASSERT_EQ(run.status, 137) << run.err;
    ++kills;
  }
  EXPECT_GT(kills, 0);
  const ProgramRun last = Well(RunFolio(Command(more)));
  EXPECT_EQ(FilesBelow(At("run/last")), FilesBelow(At("whole/last")));
  EXPECT_EQ(FilesBelow(At("run/best")), FilesBelow(At("whole/best")));
  EXPECT_EQ(FilesBelow(At("run/data")), FilesBelow(At("whole/data")));
  EXPECT_EQ(ReadFile(At("run/config.toml")), ReadFile(At("whole/config.toml")));
  ExpectNothingAside();
}

}  // namespace
}  // namespace folio
