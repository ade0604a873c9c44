// A run that was stopped goes on as if it had not been.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <stdexcept>

#include "folio/train/test_training.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

class Resuming : public Training, public testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    Training::SetUp();
    if (GetParam() == "epochs" || GetParam() == "windows") config_.order = GetParam();
    if (GetParam() == "bf16") config_.dtype = "bf16";
    if (GetParam() == "adapters") {
      config_.lora = {.rank = 2, .targets = "c_attn,c_proj,c_fc", .dropout = 0.3};
    }
    if (GetParam() == "torch") {
      config_.rng = "torch";
      model_.embd_pdrop = model_.attn_pdrop = model_.resid_pdrop = 0;
    }
  }
};

TEST_P(Resuming, GoesOnBitForBit) {
  Run("straight");
  RunUntil("stopped", 10);  // an evaluation is due at 10, and still to be done
  EXPECT_EQ(Resume("stopped").step, 20);
  ExpectSameFiles("straight/last", "stopped/last");
  ExpectSameFiles("straight/best", "stopped/best");

  RunUntil("twice", 7);
  RunUntil("twice", 13, true);
  Resume("twice");
  ExpectSameFiles("straight/last", "twice/last");

  config_.max_steps = 10;  // the evaluation at 10 is done, and not to be done again
  Run("extended");
  config_.max_steps = 20;
  Resume("extended");
  ExpectSameFiles("straight/last", "extended/last");
  ExpectSameFiles("straight/best", "extended/best");

  const std::vector<StepMetrics> expected = ReadRunLog(At("straight"));
  for (const char* run : {"stopped", "twice", "extended"}) {
    EXPECT_EQ(LoggedSteps(run), UpTo(20)) << run;
    const std::vector<StepMetrics> found = ReadRunLog(At(run));
    for (size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
      EXPECT_EQ(found[i].loss, expected[i].loss) << run << ", step " << i;
      EXPECT_EQ(found[i].val_loss, expected[i].val_loss) << run << ", step " << i;
      EXPECT_EQ(found[i].tokens, expected[i].tokens) << run << ", step " << i;
    }
  }
}

TEST_P(Resuming, AStopInTheMiddleOfAnEvaluationIsNotSeen) {
  Run("straight");
  int64_t steps = 0;
  bool stop = false;
  TrainerHooks hooks;
  hooks.on_step = [&](const StepMetrics& m) { steps = m.step + 1; };
  hooks.on_evaluation_progress = [&](int64_t done, int64_t) { stop = steps == 10 && done == 3; };
  hooks.stop_requested = [&] { return stop; };
  const TrainResult result = Make("stopped", hooks).Run();
  EXPECT_EQ(result.step, 10);
  EXPECT_TRUE(result.stopped);
  EXPECT_FALSE(result.evaluation);
  Resume("stopped");
  ExpectSameFiles("straight/last", "stopped/last");
  ExpectSameFiles("straight/best", "stopped/best");
  EXPECT_EQ(LoggedSteps("stopped"), UpTo(20));
}

TEST_P(Resuming, ACrashAfterTheLastCheckpointIsNotSeen) {
  Run("straight");
  config_.checkpoint_every = 4;
  TrainerHooks hooks;
  hooks.on_step = [](const StepMetrics& m) {
    if (m.step == 10) throw std::runtime_error("crash");
  };
  EXPECT_THROW(Make("crashed", hooks).Run(), std::runtime_error);
  std::ofstream(At("crashed") / kMetricsFile, std::ios::app) << "{\"step\":11,\"lo";
  config_.checkpoint_every = 0;
  Trainer trainer = Make("crashed");
  trainer.Resume();
  EXPECT_EQ(trainer.step(), 8);
  trainer.Run();
  ExpectSameFiles("straight/last", "crashed/last");
  EXPECT_EQ(LoggedSteps("crashed"), UpTo(20));
}

INSTANTIATE_TEST_SUITE_P(Numbers, Resuming,
                         testing::Values("folio", "epochs", "windows", "torch", "bf16",
                                         "adapters"));

// Lines that were written before have their own times, also those of a folio that kept none.
TEST_F(Training, AResumedLogKeepsItsTimes) {
  RunUntil("run", 2);
  std::vector<StepMetrics> before = ReadRunLog(At("run"));
  before.at(1).time.reset();
  RunLog rewritten(At("run"), 0);
  for (const StepMetrics& m : before) rewritten.Write(m);
  config_.max_steps = 3;
  Resume("run");
  const std::vector<StepMetrics> after = ReadRunLog(At("run"));
  EXPECT_EQ(after.at(0).time, before.at(0).time);
  EXPECT_FALSE(after.at(1).time);
  EXPECT_GT(after.at(2).time, before.at(0).time);
}

TEST_F(Training, AResumedRunHasTheAdaptersThatItBeganWith) {
  config_.max_steps = 1;
  config_.lora = {.rank = 2};
  Run("run");
  config_.lora.rank = 3;
  EXPECT_TRUE(Contains(ErrorOf([&] { Resume("run"); }, ErrorKind::kInput), "other adapters"));
  config_.lora = {};
  EXPECT_TRUE(Contains(ErrorOf([&] { Resume("run"); }, ErrorKind::kInput), "m.transformer.wte"));
  Run("whole");
  config_.lora.rank = 2;
  EXPECT_TRUE(Contains(ErrorOf([&] { Resume("whole"); }, ErrorKind::kInput), "base"));
}

TEST_F(Training, RefusesToResumeAnotherModelOrNothing) {
  EXPECT_TRUE(Contains(ErrorOf([&] { Resume("empty"); }, ErrorKind::kInput), "last"));
  config_.max_steps = 1;
  Run("run");
  model_.n_head = 3;
  EXPECT_TRUE(Contains(ErrorOf([&] { Resume("run"); }, ErrorKind::kInput), "another model"));
  model_ = TinyConfig();
  EXPECT_TRUE(Contains(ErrorOf([&] { Resume("run"); }, ErrorKind::kInput), "another model"));
}

}  // namespace
}  // namespace folio
