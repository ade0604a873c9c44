// `folio train --resume auto`: the command that a supervisor gives again and again, through the
// real program.
#include <gtest/gtest.h>

#include <fstream>

#include "folio/commands/train/test_train.h"
#include "folio/train/run_log.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

class Supervised : public TrainTest {
 protected:
  std::string Command(const std::string& more = "") const { return Words(more + " --resume auto"); }
  void ExpectNothingAside() const {
    for (const auto& entry : fs::directory_iterator(At("run"))) {
      EXPECT_FALSE(entry.path().filename().string().starts_with(".")) << entry.path();
    }
  }
};

TEST_F(Supervised, BeginsGoesOnAndEnds) {
  const ProgramRun begun = RunFolio(Command());
  EXPECT_EQ(begun.status, 0) << begun.err;
  EXPECT_TRUE(Contains(begun.err, "holds no run yet: it begins")) << begun.err;
  const auto first = FilesBelow(At("run"));
  const ProgramRun ended = RunFolio(Command());
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_TRUE(Contains(ended.err, "the run has made its 4 steps")) << ended.err;
  EXPECT_EQ(FilesBelow(At("run")), first);
  const ProgramRun on = RunFolio(Command("--max-steps 6"));
  EXPECT_EQ(on.status, 0) << on.err;
  EXPECT_TRUE(Contains(on.err, "going on after step 4")) << on.err;
  EXPECT_EQ(ReadRunLog(At("run")).back().step, 6);
  ExpectNothingAside();
}

TEST_F(Supervised, WhateverHasEndedARunIsToldAndIsNoFailure) {
  for (const std::string ends :
       {"train.max_tokens=64",
        "--patience 2 --max-steps 50 --set train.learning_rate=0 train.min_lr=0 "
        "train.eval_every=1"}) {
    fs::remove_all(At("run"));
    ASSERT_EQ(RunFolio(Command(ends)).status, 0);
    const auto model = ReadFile(At("run/last/model.safetensors"));
    const int64_t step = ReadRunLog(At("run")).back().step;
    const ProgramRun again = RunFolio(Command(ends));
    EXPECT_EQ(again.status, 0) << again.err;
    EXPECT_TRUE(Contains(again.out + again.err, "because ")) << again.out << again.err;
    EXPECT_EQ(ReadRunLog(At("run")).back().step, step) << ends;
    EXPECT_EQ(ReadFile(At("run/last/model.safetensors")), model) << ends;
  }
}

// A run that has begun, and one that has not, before its first checkpoint.
TEST_F(Supervised, WhatWasKilledBeforeACheckpointBeginsAgain) {
  fs::create_directories(At("run/.new/data"));
  WriteFileAtomically(At("run/.new/data/train.bin"), "half");
  WriteFileAtomically(At("run/.lock"), "1 elsewhere\n");
  ASSERT_EQ(RunFolio(Command()).status, 0);
  ExpectNothingAside();
  const auto whole = FilesBelow(At("run/last"));
  for (const char* part : {"last", "best", "steps", "loss.svg"}) fs::remove_all(At("run") / part);
  const ProgramRun again = RunFolio(Command());
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_TRUE(Contains(again.err, "ended before its first checkpoint: it begins again"));
  EXPECT_EQ(FilesBelow(At("run/last")), whole);
  EXPECT_EQ(ReadRunLog(At("run")).size(), 5u);
  ExpectNothingAside();
}

TEST_F(Supervised, WhatIsNoRunIsNotReplaced) {
  fs::create_directories(At("run/data"));
  WriteFileAtomically(At("run/data/mine"), "mine");
  ExpectError(2, Command("--quiet"), "already holds a run");
  EXPECT_EQ(ReadFile(At("run/data/mine")), "mine");
  fs::remove_all(At("run"));
  // A run whose checkpoints are all damaged is somebody's work, too.
  ASSERT_EQ(RunFolio(Command()).status, 0);
  fs::remove_all(At("run/steps"));
  std::ofstream(At("run/last/model.safetensors"), std::ios::app) << "more";
  ExpectError(3, Command("--max-steps 6"), "model.safetensors is damaged");
  EXPECT_TRUE(fs::exists(At("run/last")));
  ExpectError(2, Command("--overwrite"), "--resume and --overwrite");
  ExpectError(2, Words("--resume maybe"), "--resume", "'maybe'", "auto");
}

// The flags that say how a run begins are on the command line every time.
TEST_F(Supervised, TheBeginningIsSaidAgainAndCountsOnce) {
  ASSERT_EQ(Train().status, 0);
  fs::rename(At("run"), At("model"));
  const auto command = [&](const std::string& more) {
    return "train --resume auto --data " + data_ + " --out " + At("run").string() + " --init " +
           At("model").string() + " --lora 2 --batch 2 " + more;
  };
  ASSERT_EQ(RunFolio(command("--max-steps 2")).status, 0);
  const ProgramRun on = RunFolio(command("--max-steps 4"));
  EXPECT_EQ(on.status, 0) << on.err;
  EXPECT_TRUE(Contains(on.err, "going on after step 2")) << on.err;
  fs::remove_all(At("run"));
  const ProgramRun budget = RunFolio(Command("--preset debug --budget 2s"));
  EXPECT_EQ(budget.status, 0) << budget.err;
  const ProgramRun again = RunFolio(Command("--preset char-cpu --budget 3s"));
  EXPECT_EQ(again.status, 0) << again.err;
}

// Killed at any moment, it comes to the bytes of a run that nobody disturbed.
TEST_F(Supervised, KilledAtAnyMomentItComesToTheSameEnd) {
  const std::string more = "train.eval_every=10 --max-steps 40 --threads 1 --no-config";
  ASSERT_EQ(Train(more).status, 0);
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
  const ProgramRun last = RunFolio(Command(more));
  EXPECT_EQ(last.status, 0) << last.err;
  EXPECT_EQ(FilesBelow(At("run/last")), FilesBelow(At("whole/last")));
  EXPECT_EQ(FilesBelow(At("run/best")), FilesBelow(At("whole/best")));
  EXPECT_EQ(FilesBelow(At("run/data")), FilesBelow(At("whole/data")));
  EXPECT_EQ(ReadFile(At("run/config.toml")), ReadFile(At("whole/config.toml")));
  ExpectNothingAside();
}

}  // namespace
}  // namespace folio
