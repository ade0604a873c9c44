// The ends of a run before max_steps.

#include <gtest/gtest.h>

#include "folio/train/test_training.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

using EarlyStop = Training;

// Random numbers cannot be learnt: what is learnt by heart makes the held-out loss worse.
void LearnByHeart(GptConfig& model, TrainConfig& config) {
  model.embd_pdrop = model.attn_pdrop = model.resid_pdrop = 0;
  config.max_steps = 200;
  config.decay_steps = 200;
}

TEST_F(EarlyStop, PatienceEndsARunThatGetsNoBetter) {
  LearnByHeart(model_, config_);
  data_ = MakeData("few", 12, 93);
  config_.patience = 3;
  const TrainResult result = Run("run");
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(result.ended_by, "patience");
  EXPECT_EQ(result.step, result.best_step + 3 * config_.eval_every);
  const std::vector<StepMetrics> log = ReadRunLog(At("run"));
  EXPECT_EQ(log.back().ended_by, "patience");
  EXPECT_EQ(log.at(0).ended_by, "");
  // Until then it is the run without patience, of which a checkpoint of that step is known.
  config_.patience = 0;
  RunUntil("plain", result.step);
  EXPECT_EQ(Files("plain/last").at("model.safetensors"), Files("run/last").at("model.safetensors"));

  // It ends there again unless more patience is asked for.
  config_.patience = 3;
  EXPECT_EQ(Resume("run").step, result.step);
  config_.patience = 5;
  EXPECT_EQ(Resume("run").step, result.best_step + 5 * config_.eval_every);
}

TEST_F(EarlyStop, PatienceIsTheSameInARunThatWasStopped) {
  LearnByHeart(model_, config_);
  data_ = MakeData("few", 12, 93);
  config_.patience = 4;
  const TrainResult straight = Run("straight");
  ASSERT_EQ(straight.ended_by, "patience");
  RunUntil("parts", straight.best_step + config_.eval_every + 2);
  EXPECT_EQ(Resume("parts").step, straight.step);
  ExpectSameFiles("straight/last", "parts/last");
}

TEST_F(EarlyStop, TokensEndARun) {
  config_.max_tokens = 7 * 20 - 1;  // a step has 20
  const TrainResult result = Run("run");
  EXPECT_EQ(result.step, 7);
  EXPECT_EQ(result.ended_by, "max_tokens");
  EXPECT_TRUE(result.evaluation);
  EXPECT_EQ(ReadRunLog(At("run")).back().ended_by, "max_tokens");
  config_.max_tokens = 0;
  EXPECT_EQ(Resume("run").ended_by, "");
  Run("straight");
  ExpectSameFiles("straight/last", "run/last");
  EXPECT_EQ(LoggedSteps("run"), UpTo(20));
}

TEST_F(EarlyStop, TimeEndsARunWithItsCheckpointMade) {
  double now = 0;
  config_.max_time = "1000s";
  config_.eval_every = 0;
  config_.checkpoint_every = 2;
  TrainerHooks hooks;
  hooks.clock = [&] { return now; };
  hooks.on_step = [&](const StepMetrics&) { now += 75; };
  hooks.on_checkpoint = [&](int64_t, const auto&) { now += 50; };
  Trainer trainer = Make("run", hooks);
  const TrainResult result = trainer.Run();
  EXPECT_EQ(result.ended_by, "max_time");
  EXPECT_LE(now, 1000);
  EXPECT_GE(result.step, 6);  // of 75 to 125 s, and the last checkpoint
  EXPECT_LE(result.step, 12);
  EXPECT_EQ(ReadRunLog(At("run")).back().ended_by, "max_time");
  config_.max_time = "";
  Resume("run");
  Run("straight");
  ExpectSameFiles("straight/last", "run/last");
  EXPECT_EQ(LoggedSteps("run"), UpTo(20));
}

TEST_F(EarlyStop, ATimeThatIsNoneIsRefused) {
  config_.max_time = "soon";
  EXPECT_TRUE(Contains(ErrorOf([&] { Run("run"); }, ErrorKind::kUsage), "train.max_time",
                       "'soon' is no time"));
}

}  // namespace
}  // namespace folio
