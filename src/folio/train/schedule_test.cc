#include "folio/train/schedule.h"

#include <gtest/gtest.h>

#include "tests/kit/expect.h"

namespace folio {
namespace {

TrainConfig Config(const std::string& schedule) {
  TrainConfig config;
  config.schedule = schedule;
  config.learning_rate = 0.5;
  config.min_lr = 0.1;
  config.warmup_steps = 4;
  config.decay_steps = 24;
  config.max_steps = 1000;
  return config;
}

TEST(LearningRate, WarmsUpFromTheFirstStepWhateverFollows) {
  for (const char* schedule : {"cosine", "linear", "wsd", "constant"}) {
    const TrainConfig config = Config(schedule);
    for (int64_t step = 0; step < 4; ++step) {
      EXPECT_DOUBLE_EQ(LearningRate(config, step), 0.1 * static_cast<double>(step + 1)) << schedule;
    }
    EXPECT_DOUBLE_EQ(LearningRate(config, 4), 0.5) << schedule;
  }
}

TEST(LearningRate, CosineFallsByHalfACosine) {
  const TrainConfig config = Config("cosine");
  EXPECT_DOUBLE_EQ(LearningRate(config, 14), 0.3);
  EXPECT_NEAR(LearningRate(config, 9), 0.1 + 0.4 * 0.8535533905932738, 1e-15);  // cos(pi/4)
  EXPECT_NEAR(LearningRate(config, 19), 0.1 + 0.4 * 0.1464466094067262, 1e-15);
}

TEST(LearningRate, LinearFallsByALine) {
  const TrainConfig config = Config("linear");
  EXPECT_DOUBLE_EQ(LearningRate(config, 9), 0.4);
  EXPECT_DOUBLE_EQ(LearningRate(config, 14), 0.3);
  EXPECT_DOUBLE_EQ(LearningRate(config, 23), 0.12);
}

TEST(LearningRate, WsdStaysAndThenFallsByALine) {
  TrainConfig config = Config("wsd");
  config.stable_fraction = 0.5;
  for (int64_t step : {4, 8, 12}) EXPECT_DOUBLE_EQ(LearningRate(config, step), 0.5);
  EXPECT_DOUBLE_EQ(LearningRate(config, 15), 0.4);
  EXPECT_DOUBLE_EQ(LearningRate(config, 21), 0.2);
  config.stable_fraction = 0;  // the decay cannot begin before the warm-up is over
  EXPECT_DOUBLE_EQ(LearningRate(config, 4), 0.5);
  EXPECT_DOUBLE_EQ(LearningRate(config, 14), 0.3);
  config.stable_fraction = 1;
  EXPECT_DOUBLE_EQ(LearningRate(config, 23), 0.5);
  EXPECT_DOUBLE_EQ(LearningRate(config, 24), 0.1);
}

TEST(LearningRate, StaysAtTheEnd) {
  for (const char* schedule : {"cosine", "linear", "wsd"}) {
    for (int64_t step : {24, 25, 1000, 1000000}) {
      EXPECT_EQ(LearningRate(Config(schedule), step), 0.1) << schedule;
    }
  }
  for (int64_t step : {4, 24, 1000000}) EXPECT_EQ(LearningRate(Config("constant"), step), 0.5);
}

TEST(LearningRate, DecaysToMaxStepsUnlessToldOtherwise) {
  TrainConfig config = Config("linear");
  config.decay_steps = 0;
  config.max_steps = 44;
  EXPECT_DOUBLE_EQ(LearningRate(config, 24), 0.3);
  EXPECT_EQ(LearningRate(config, 44), 0.1);
}

TEST(LearningRate, NeedsNoWarmUp) {
  TrainConfig config = Config("cosine");
  config.warmup_steps = 0;
  EXPECT_EQ(LearningRate(config, 0), 0.5);
  EXPECT_DOUBLE_EQ(LearningRate(config, 12), 0.3);
  config.decay_steps = 10;  // a warm-up longer than the decay
  config.warmup_steps = 20;
  EXPECT_DOUBLE_EQ(LearningRate(config, 19), 0.5 * 20 / 21);
  EXPECT_EQ(LearningRate(config, 20), 0.1);
}

TEST(LearningRate, IsDescribed) {
  TrainConfig config = Config("cosine");
  config.learning_rate = 1e-3;
  config.min_lr = 1e-4;
  config.warmup_steps = 100;
  config.decay_steps = 0;
  config.max_steps = 2000;
  EXPECT_EQ(DescribeSchedule(config),
            "to 0.001 in 100 steps, then a cosine down to 0.0001 at step 2,000");
  config.schedule = "wsd";
  config.stable_fraction = 0.8;
  EXPECT_EQ(
      DescribeSchedule(config),
      "to 0.001 in 100 steps, from step 1,600 on a straight line down to 0.0001 at step 2,000");
  config.schedule = "constant";
  EXPECT_EQ(DescribeSchedule(config), "to 0.001 in 100 steps, where it stays");
  config.max_steps = 50;
  EXPECT_TRUE(Contains(DescribeSchedule(config), "rising to 0.000495", "warm-up of 100 steps"));
}

}  // namespace
}  // namespace folio
