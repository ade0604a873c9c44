#include "folio/train/budget.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace folio {
namespace {

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
  TrainConfig config{.batch_size = 10, .grad_accumulation = 2};
  EXPECT_EQ(WorthwhileSteps(config, 50, 100'000), 40 * 100'000 / 1000);
  config.init = "model";
  EXPECT_EQ(WorthwhileSteps(config, 50, 100'000), 3 * 100'000 / 1000);
  EXPECT_EQ(WorthwhileSteps(config, 50, 1000), 8);
}

}  // namespace
}  // namespace folio
