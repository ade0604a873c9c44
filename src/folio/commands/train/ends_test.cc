// These tests check what ends a training run before its last step, through the real program.
#include <gtest/gtest.h>

#include "folio/commands/train/test_train.h"
#include "folio/train/run_log.h"

namespace folio {
namespace {

using TrainEnds = TrainTest;

constexpr char kBlowsUp[] =
    "--max-steps 30 --set train.learning_rate=1000 train.weight_decay=1000 train.warmup_steps=0 "
    "train.schedule=constant "
    "train.eval_every=0 train.checkpoint_every=1 train.max_skipped_steps=2 ";

TEST_F(TrainEnds, StepsAreSkippedAndThenItDiverges) {
  const ProgramRun run = Train(kBlowsUp);
  EXPECT_EQ(run.status, 5) << run.err;
  EXPECT_TRUE(Contains(run.err, " skipped: non-finite ", "training diverged at step",
                       "of 3 skipped in a row", "no checkpoint was written before that"))
      << run.err;
  const std::vector<StepMetrics> log = ReadRunLog(At("run"));
  EXPECT_EQ(log.back().skipped.substr(0, 11), "non-finite ");
  const ProgramRun events = Train(std::string("--overwrite --json ") + kBlowsUp);
  EXPECT_EQ(events.status, 5);
  EXPECT_EQ(Count(events.out, "{\"event\":\"skipped\""), 2u) << events.out;
}

TEST_F(TrainEnds, TheOperationThatBreaksIsNamed) {
  const ProgramRun run = Train(std::string("--check-numerics ") + kBlowsUp);
  EXPECT_EQ(run.status, 5) << run.err;
  EXPECT_TRUE(Contains(run.err, "step ", " gives a number that is not finite", "element ",
                       "transformer.", "what it read"))
      << run.err;
  EXPECT_EQ(Train("--overwrite --check-numerics").status, 0);
}

TEST_F(TrainEnds, PatienceIsSaid) {
  // Nothing is learnt: no evaluation is better than the first.
  const ProgramRun run = Train(
      "--patience 2 --max-steps 50 --set train.learning_rate=0 train.min_lr=0 "
      "train.eval_every=1");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(Contains(run.out, "stopped after 3 steps",
                       "because 2 evaluations in a row had no better held-out loss"))
      << run.out;
  EXPECT_TRUE(Contains(run.err, "next: folio generate")) << run.err;
  EXPECT_EQ(ReadRunLog(At("run")).back().ended_by, "patience");
}

TEST_F(TrainEnds, TokensAndTimeAreSaid) {
  const ProgramRun tokens = Train("train.max_tokens=64 --json");
  EXPECT_EQ(tokens.status, 0) << tokens.err;
  EXPECT_TRUE(Contains(tokens.out, "\"ended_by\":\"max_tokens\"", "\"step\":2,\"tokens\":64"))
      << tokens.out;
  const ProgramRun time = Train("--overwrite --max-steps 1000000 --max-time 2s");
  EXPECT_EQ(time.status, 0) << time.err;
  EXPECT_TRUE(Contains(time.out, "because --max-time is 2s")) << time.out;
  EXPECT_TRUE(Contains(time.err, "go on: folio train --resume")) << time.err;
  EXPECT_EQ(RunFolio(Resumed("--max-time 1s")).status, 0);
  ExpectError(2, Words("--overwrite --max-time soon"), "train.max_time", "'soon' is no time");
}

}  // namespace
}  // namespace folio
