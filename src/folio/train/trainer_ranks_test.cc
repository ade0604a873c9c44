// Runs of several ranks, which leave what one process leaves.
#include <gtest/gtest.h>

#include "folio/train/ranks.h"
#include "folio/train/test_training.h"
#include "tests/kit/expect.h"
#include "tests/kit/thread_ranks.h"

namespace folio {
namespace {

class TrainingOnRanks : public Training {
 protected:
  TrainingOnRanks() {
    config_.grad_accumulation = 12;
    config_.max_steps = 9;
    config_.eval_every = 3;
    config_.eval_batches = 5;
  }

  // Trains on so many ranks until `stop` steps are done, as the last rank asks.
  void RunOn(int ranks, const std::string& run, int64_t stop = 100, bool resume = false) {
    std::filesystem::create_directories(At(run));
    RunOnThreads(ranks, [&](Group& group) {
      const auto backend = MakeBackend("cpu");
      int64_t done = 0;
      TrainerHooks hooks;
      hooks.on_step = [&](const StepMetrics& m) { done = m.step + 1; };
      hooks.stop_requested = [&] { return group.rank() == ranks - 1 && done == stop; };
      hooks.layer_norms_every = 2;
      Trainer trainer(*backend, model_, config_, *data_, At(run), hooks, nullptr, nullptr, &group);
      if (resume) trainer.Resume();
      const TrainResult result = trainer.Run();
      EXPECT_EQ(result.step, std::min(stop, config_.max_steps));
    });
  }
  // metrics.jsonl but for times.
  std::vector<std::vector<double>> Numbers(const std::string& run) const {
    std::vector<std::vector<double>> rows;
    for (const StepMetrics& m : ReadRunLog(At(run))) {
      rows.push_back({static_cast<double>(m.step), m.loss.value_or(-1), m.grad_norm.value_or(-1),
                      m.val_loss.value_or(-1)});
    }
    return rows;
  }
};

TEST_F(TrainingOnRanks, LeaveTheSameBytesHoweverManyTheyAre) {
  RunOn(1, "one");
  for (const int ranks : {2, 3, 4}) {
    const std::string run = "ranks" + std::to_string(ranks);
    RunOn(ranks, run);
    ExpectSameFiles("one/last", run + "/last");
    ExpectSameFiles("one/best", run + "/best");
    EXPECT_EQ(Numbers("one"), Numbers(run)) << ranks;
  }
}

TEST_F(TrainingOnRanks, GoOnWithFewerAndMore) {
  RunOn(1, "one");
  RunOn(4, "parts", 3);
  RunOn(2, "parts", 4, true);
  RunOn(1, "parts", 6, true);
  RunOn(3, "parts", 100, true);
  ExpectSameFiles("one/last", "parts/last");
  EXPECT_EQ(Numbers("one"), Numbers("parts"));
}

TEST_F(TrainingOnRanks, AdaptersAndRoundedSumsDoSoToo) {
  config_.reduce_dtype = "bf16";
  RunOn(1, "one");
  RunOn(3, "ranks");
  ExpectSameFiles("one/last", "ranks/last");
}

// As many micro-batches in a row are added up whoever has them.
TEST_F(TrainingOnRanks, SumsThatAreSentAreThoseOfOneProcess) {
  config_.reduce_every = 4;
  RunOn(1, "one");
  RunOn(3, "three", 4);
  RunOn(1, "three", 100, true);
  ExpectSameFiles("one/last", "three/last");
  EXPECT_EQ(Numbers("one"), Numbers("three"));
  config_.reduce_every = 5;
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { config_.Validate("settings"); }, ErrorKind::kUsage),
                       "12 micro-batches do not go into sums of 5", "4 or 6"));
}

TEST_F(TrainingOnRanks, ANumberThatDoesNotDivideIsRefusedWithTheNearest) {
  const auto refusal = [&](int64_t micro_batches, int ranks) {
    config_.grad_accumulation = micro_batches;
    return ErrorOf([&] { RequireShares(config_, ranks); }, ErrorKind::kUsage);
  };
  EXPECT_TRUE(Contains(refusal(12, 5), "5 ranks cannot share 12", "4 or 6 ranks",
                       "--grad-accumulation 10 or 15"));
  EXPECT_TRUE(Contains(refusal(1, 4), ": 1 ranks, or", "--grad-accumulation 4"));
  config_.reduce_every = 3;
  EXPECT_TRUE(Contains(refusal(12, 3), "12 micro-batches evenly, 3 in a row", ": 2 or 4 ranks",
                       "--grad-accumulation 9 or 18"));
}

}  // namespace
}  // namespace folio
