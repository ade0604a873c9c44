#include "folio/train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

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
            "0.001 after 100 warm-up steps, then cosine decay to 0.0001 at step 2,000");
  config.schedule = "wsd";
  config.stable_fraction = 0.8;
  EXPECT_EQ(
      DescribeSchedule(config),
      "0.001 after 100 warm-up steps, from step 1,600 on linear decay to 0.0001 at step 2,000");
  config.schedule = "constant";
  EXPECT_EQ(DescribeSchedule(config), "0.001 after 100 warm-up steps, then constant");
  config.max_steps = 50;
  EXPECT_TRUE(Contains(DescribeSchedule(config), "rising to 0.000495", "warm-up of 100 steps"));
}

// A run by a machine whose step takes step_seconds(now): evaluations every so many steps, and one
// at the end, take as long as 20 of them.
struct Ended {
  int64_t steps = 0;
  double seconds = 0;
};

Ended RunWith(BudgetPlan plan, const std::function<double(double now)>& step_seconds,
              int64_t eval_every) {
  constexpr double kEvaluation = 20;
  double now = 0, pause = 0, evaluation = 0;
  int64_t step = 0, steps = plan.steps();
  while (step < steps) {
    const double seconds = step_seconds(now);
    now += seconds;
    plan.Step(pause, seconds);
    pause = 0;
    ++step;
    steps = plan.Correct(step, now, evaluation);
    if (step % eval_every != 0 && step < steps) continue;
    pause = evaluation = kEvaluation * step_seconds(now);
    now += pause;
  }
  return {step, now};
}

constexpr double kBudget = 600;

TEST(BudgetPlan, KeepsTheTimeWhateverTheSpeedDoes) {
  const std::function<double(double)> speeds[] = {
      [](double) { return 0.1; },                                       // as measured
      [](double now) { return now < kBudget / 2 ? 0.1 : 0.2; },         // half from the middle on
      [](double now) { return now < kBudget / 10 ? 0.1 : 0.2; },        // or early
      [](double now) { return now < 0.9 * kBudget ? 0.1 : 0.2; },       // or late
      [](double now) { return now < kBudget / 2 ? 0.2 : 0.1; },         // twice
      [](double) { return 0.02; },                                      // the measurement was wrong
      [](double) { return 0.7; },                                       // and the other way
      [](double now) { return 0.1 * (1 + 0.5 * std::sin(now / 20)); },  // up and down
      [](double now) { return std::fmod(now, 50) < 1 ? 1.5 : 0.1; },    // with stalls
  };
  for (size_t i = 0; i < std::size(speeds); ++i) {
    const Ended ended = RunWith({kBudget, 5500, 1'000'000}, speeds[i], 500);
    EXPECT_NEAR(ended.seconds, kBudget, 0.04 * kBudget) << i;
  }
}

// A plan without a clock would miss the budget.
TEST(BudgetPlan, IsNeededWhereTheSpeedHalves) {
  const auto halves = [](double now) { return now < kBudget / 2 ? 0.1 : 0.2; };
  EXPECT_GT(RunWith({1e9, 5500, 1'000'000}, halves, 500).seconds, 1.3 * kBudget);
}

TEST(BudgetPlan, MakesNoMoreStepsThanAreWorthwhile) {
  const Ended ended = RunWith(
      {kBudget, 5500, 1000}, [](double) { return 0.1; }, 500);
  EXPECT_EQ(ended.steps, 1000);
  EXPECT_LT(ended.seconds, 0.3 * kBudget);
}

TEST(BudgetPlan, StaysWhereLittleIsKnownOrGained) {
  BudgetPlan plan(100, 1000, 5000);
  plan.Step(0, 1);  // one slow step at first
  EXPECT_EQ(plan.Correct(1, 1, 0), 1000);
  BudgetPlan steady(100, 1000, 5000);
  for (int64_t step = 1; step < 990; ++step) {
    steady.Step(0, 0.1004);
    ASSERT_EQ(steady.Correct(step, 0.1004 * static_cast<double>(step), 0), 1000) << step;
  }
  // The time is up, whatever that changes.
  EXPECT_EQ(steady.Correct(989, 100, 0), 989);
}

TEST(BudgetPlan, ATextIsReadSoOftenAtMost) {
  TrainConfig config{.batch_size = 10, .context = 50, .grad_accumulation = 2};
  EXPECT_EQ(WorthwhileSteps(config, 100'000), 40 * 100'000 / 1000);
  config.init = "model";
  EXPECT_EQ(WorthwhileSteps(config, 100'000), 3 * 100'000 / 1000);
  EXPECT_EQ(WorthwhileSteps(config, 1000), 8);
}

}  // namespace
}  // namespace folio
