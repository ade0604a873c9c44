// Runs that have a time to keep, by a clock of their own.
#include <gtest/gtest.h>

#include "folio/io/file.h"
#include "folio/train/test_training.h"
#include "tests/kit/expect.h"
#include "tests/kit/thread_ranks.h"

namespace folio {
namespace {

class BudgetRun : public Training {
 protected:
  BudgetRun() {
    config_.grad_accumulation = 3;
    config_.budget = "100s";
    config_.max_steps = 180;
    config_.decay_steps = 0;
    config_.eval_every = 25;
  }
  void SetUp() override { data_ = MakeData("data", 4000, 93); }

  // A clock that stands still but for steps and evaluations, which take twice as long once `slow`
  // seconds are gone.
  struct Clock {
    double slow = 50, now = 1000, began = 1000;
    void Advance(double seconds) { now += now - began < slow ? seconds : 2 * seconds; }
  };
  TrainerHooks Hooks(Clock& clock) {
    TrainerHooks hooks;
    hooks.clock = [&clock] { return clock.now; };
    hooks.on_step = [&clock](const StepMetrics&) { clock.Advance(0.5); };
    hooks.on_evaluation = [&clock](int64_t, const Evaluation&) { clock.Advance(1); };
    hooks.on_plan = [this](int64_t steps) { plans_.push_back(steps); };
    return hooks;
  }

  std::vector<int64_t> plans_;
};

TEST_F(BudgetRun, StepsAndDecayFollowTheClock) {
  Clock clock;
  Trainer trainer = Make("run", Hooks(clock));
  const TrainResult result = trainer.Run();
  EXPECT_NEAR(clock.now - clock.began, 100, 5);
  EXPECT_FALSE(result.stopped);
  EXPECT_EQ(result.ended_by, "");
  EXPECT_EQ(result.step, trainer.max_steps());
  EXPECT_NEAR(static_cast<double>(result.step), 140, 12);
  EXPECT_EQ(plans_.front(), 180);
  EXPECT_EQ(plans_.back(), result.step);
  // The learning rate has come down, and no line of the log is of another run.
  const std::vector<StepMetrics> log = ReadRunLog(At("run"));
  EXPECT_EQ(LoggedSteps("run"), UpTo(result.step));
  EXPECT_LT(*log.at(log.size() - 2).lr, config_.min_lr + 0.01 * config_.learning_rate);
  for (size_t i = 30; i + 2 < log.size(); ++i) {
    EXPECT_LE(*log[i + 1].lr, 1.05 * *log[i].lr) << i;
  }
}

TEST_F(BudgetRun, WithoutABudgetNoClockMatters) {
  config_.budget = "";
  config_.max_steps = 20;
  Clock clock;
  Make("a", Hooks(clock)).Run();
  Run("b");
  ExpectSameFiles("a/last", "b/last");
  EXPECT_TRUE(plans_.empty());
  EXPECT_FALSE(Contains(ReadFile(At("a/last/train_state/state.json")), "budget"));
}

TEST_F(BudgetRun, AResumedRunGoesOnWithTheCorrectedPlan) {
  Clock clock;
  TrainerHooks hooks = Hooks(clock);
  int64_t done = 0;
  hooks.on_step = [&](const StepMetrics& m) {
    clock.Advance(0.5);
    done = m.step + 1;
  };
  hooks.stop_requested = [&] { return done == 120; };
  EXPECT_EQ(Make("run", hooks).Run().step, 120);
  const double used = clock.now - clock.began;
  EXPECT_GT(used, 60);
  const int64_t planned = plans_.back();
  EXPECT_LT(planned, 160);  // and not the 180 of the settings

  Clock later{.slow = 0, .now = 5, .began = 5};  // another process, on the slow machine
  plans_.clear();
  Trainer trainer = Make("run", Hooks(later));
  trainer.Resume();
  EXPECT_EQ(trainer.max_steps(), planned);
  const TrainResult result = trainer.Run();
  EXPECT_EQ(plans_.front(), planned);
  EXPECT_NEAR(used + later.now - later.began, 100, 5);
  EXPECT_FALSE(result.stopped);
  // It has ended, and knows.
  Trainer again = Make("run", Hooks(later));
  again.Resume();
  EXPECT_TRUE(again.ended());
  EXPECT_EQ(again.max_steps(), result.step);
  // Steps that are asked for take the place of the time.
  config_.budget = "";
  config_.max_steps = static_cast<int64_t>(result.step) + 5;
  EXPECT_EQ(Resume("run").step, result.step + 5);
}

// The clock of the first rank counts where clocks differ.
TEST_F(BudgetRun, TheFirstRankDecidesForAll) {
  config_.grad_accumulation = 6;
  Clock alone;
  EXPECT_GT(Make("one", Hooks(alone)).Run().step, 100);
  for (const int ranks : {2, 3}) {
    const std::string run = "ranks" + std::to_string(ranks);
    std::filesystem::create_directories(At(run));
    std::vector<int64_t> steps(static_cast<size_t>(ranks));
    RunOnThreads(ranks, [&](Group& group) {
      const auto backend = MakeBackend("cpu");
      Clock clock;
      if (!group.first()) clock.slow = 10 * group.rank();
      TrainerHooks hooks = Hooks(clock);
      hooks.on_plan = {};
      Trainer trainer(*backend, model_, config_, *data_, At(run), hooks, nullptr, nullptr, &group);
      steps[static_cast<size_t>(group.rank())] = trainer.Run().step;
    });
    EXPECT_EQ(steps, std::vector<int64_t>(static_cast<size_t>(ranks), steps[0]));
    ExpectSameFiles("one/last", run + "/last");
  }
}

TEST_F(BudgetRun, ATimeThatIsNoneIsRefused) {
  config_.budget = "soon";
  EXPECT_TRUE(
      Contains(ErrorOf([&] { Run("run"); }, ErrorKind::kUsage), "--budget", "'soon' is no time"));
}

}  // namespace
}  // namespace folio
