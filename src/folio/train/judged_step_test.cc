#include "folio/train/judged_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "folio/model/test_models.h"
#include "folio/train/schedule.h"
#include "tests/kit/expect.h"
#include "tests/kit/thread_ranks.h"

namespace folio {
namespace {

// Steps of one model, or of this rank's shard of it, on the same batch.
class Steps {
 public:
  explicit Steps(const TrainConfig& config, Group* group = nullptr, int tensor = 1)
      : config_(config),
        weights_(ParamTable(TinyConfig(), {}, {TensorCommunicator(group, tensor).rank(), tensor})),
        step_(*backend_, weights_, 2, 5, {}, {.group = group, .tensor = tensor},
              OptimizerSettingsOf(config)) {
    Scatter(weights_, 1);
  }

  void Accumulate() {
    step_.Begin();
    metrics_ = {.step = steps_++};
    step_.Accumulate(inputs_, targets_, 0.1, {});
    metrics_.loss = step_.Losses()[0] / 10;
  }
  std::string Judge() {
    metrics_.grad_norm = step_.Norm();
    std::string lost = JudgeAndUpdate(step_, config_, health_, metrics_);
    step_.WaitForWeights();
    return lost;
  }
  void Spoil() { *step_.grads().data<float>() = std::numeric_limits<float>::infinity(); }
  std::vector<float> Weights() const { return Copied<float>(weights_.flat()); }

  TrainStep& step() { return step_; }
  const StepMetrics& metrics() const { return metrics_; }
  const StepHealth& health() const { return health_; }

 private:
  std::unique_ptr<Backend> backend_ = MakeBackend("cpu");
  TrainConfig config_;
  GptWeights weights_;
  TrainStep step_;
  StepHealth health_;
  StepMetrics metrics_;
  int64_t steps_ = 0;
  std::vector<int32_t> inputs_ = RandomTokens(10, 11, 2), targets_ = RandomTokens(10, 11, 3);
};

TEST(JudgedStep, IsTheClippedUpdateWhereItIsSound) {
  const TrainConfig config{.grad_clip = 1e-2, .weight_decay = 0.3};
  Steps judged(config), expected(config);
  for (int64_t step = 0; step < 3; ++step) {
    judged.Accumulate();
    expected.Accumulate();
    EXPECT_EQ(judged.Judge(), "");
    const double rate = LearningRate(config, step);
    const double norm = expected.step().Finish(rate, config.grad_clip, step + 1);
    EXPECT_GT(norm, config.grad_clip);
    EXPECT_EQ(judged.metrics().lr, rate);
    EXPECT_EQ(judged.metrics().grad_norm, norm);
    EXPECT_EQ(judged.Weights(), expected.Weights()) << step;
  }
  EXPECT_EQ(judged.health().skipped, 0);
}

TEST(JudgedStep, IsSkippedWhereItIsNotAndTheNextIsAsIfItWereTheFirst) {
  const TrainConfig config{.schedule = "constant", .warmup_steps = 0, .max_skipped_steps = 1};
  Steps judged(config), expected(config);
  const std::vector<float> before = judged.Weights();
  judged.Accumulate();
  judged.Spoil();
  EXPECT_EQ(judged.Judge(), "");
  EXPECT_EQ(judged.metrics().skipped, "non-finite gradient");
  EXPECT_EQ(judged.metrics().skipped_parameter, "transformer.wte.weight");
  EXPECT_EQ(judged.Weights(), before);
  judged.Accumulate();
  expected.Accumulate();
  EXPECT_EQ(judged.Judge(), "");
  EXPECT_EQ(expected.Judge(), "");
  EXPECT_NE(judged.Weights(), before);
  EXPECT_EQ(judged.Weights(), expected.Weights());
  for (const bool lost : {false, true}) {
    judged.Accumulate();
    judged.Spoil();
    const std::string why = judged.Judge();
    EXPECT_EQ(!why.empty(), lost) << why;
    EXPECT_EQ(lost, Contains(why, "non-finite gradient", "wte", "2 skipped in a row")) << why;
  }
}

// Ranks that share the layers have gradients of their own.
TEST(JudgedStep, AllRanksSkipWhatOneOfThemCannotMake) {
  RunOnThreads(2, [](Group& group) {
    Steps steps({}, &group, 2);
    const std::vector<float> before = steps.Weights();
    steps.Accumulate();
    if (!group.first()) steps.Spoil();
    EXPECT_EQ(steps.Judge(), "");
    EXPECT_EQ(steps.metrics().skipped_parameter, "transformer.wte.weight");
    EXPECT_EQ(steps.Weights(), before);
  });
}

}  // namespace
}  // namespace folio
