// Runs whose weights, gradients and optimizer lie where the host cannot touch them leave the files
// of other runs.

#include <gtest/gtest.h>

#include "folio/backend/test_fenced_orders.h"
#include "folio/model/test_models.h"
#include "folio/model_files/checkpoint.h"
#include "folio/train/test_training.h"
#include "folio/train/trainer.h"

namespace folio {
namespace {

class FencedTraining : public Training, public testing::WithParamInterface<FencedOrder> {
 protected:
  // Trains in `run` until the step, or to the end, and goes on where it was if it has begun.
  void Train(Backend& backend, const std::string& run, int64_t until = -1,
             const StoredModel* from = nullptr) {
    TrainerHooks hooks;
    int64_t done = 0;
    hooks.layer_norms_every = 3;
    hooks.on_step = [&](const StepMetrics& m) {
      done = m.step + 1;
      if (m.layer_norms) norms_[run].push_back(m.layer_norms->update);
    };
    hooks.stop_requested = [&] { return done == until; };
    const bool resumes = std::filesystem::exists(At(run) / kLastDir);
    Trainer trainer = MakeOn(backend, run, hooks, nullptr, nullptr, from);
    if (resumes) trainer.Resume();
    trainer.Run();
  }

  // Losses and norms of the steps.
  std::vector<std::vector<double>> Numbers(const std::string& run) {
    std::vector<std::vector<double>> numbers = norms_[run];
    for (const StepMetrics& m : ReadRunLog(At(run))) {
      numbers.push_back({m.loss.value_or(0), m.grad_norm.value_or(0), m.val_loss.value_or(0)});
    }
    return numbers;
  }

  void ExpectSameRuns(const std::string& a, const std::string& b) {
    ExpectSameFiles(a + "/last", b + "/last");
    ExpectSameFiles(a + "/best", b + "/best");
    EXPECT_EQ(Numbers(a), Numbers(b));
    EXPECT_GT(Numbers(a).size(), 20u);
  }

  std::unique_ptr<Backend> fenced_ = MakeFencedBackend(GetParam());
  std::map<std::string, std::vector<std::vector<double>>> norms_;
};

TEST_P(FencedTraining, LeavesTheFilesOfTheCpu) {
  config_.eval_every = 7;
  for (const std::string kind : {"fp32", "bf16", "rounded", "dropout"}) {
    config_.dtype = kind == "bf16" ? "bf16" : "fp32";
    config_.reduce_dtype = kind == "rounded" ? "bf16" : "fp32";
    model_.resid_pdrop = kind == "dropout" ? 0.2 : 0;
    Train(*backend_, kind);
    Train(*fenced_, "fenced_" + kind);
    ExpectSameRuns(kind, "fenced_" + kind);
  }
}

TEST_P(FencedTraining, GoesOnWithWhatTheOtherBackendLeft) {
  config_.eval_every = 7;
  Train(*backend_, "whole");
  Train(*fenced_, "mixed", 6);
  Train(*backend_, "mixed", 13);
  Train(*fenced_, "mixed");
  ExpectSameFiles("whole/last", "mixed/last");
}

TEST_P(FencedTraining, AdaptersAreTrainedMergedAndSaved) {
  config_.eval_every = 7;
  config_.lora = {.rank = 2, .targets = "c_attn,c_fc", .dropout = 0.1};
  const GptWeights base(model_);
  Scatter(base, 5);
  const StoredModel stored = AsStored(base);
  Train(*backend_, "cpu", 9, &stored);
  Train(*backend_, "cpu", -1, &stored);
  Train(*fenced_, "fenced", 9, &stored);
  Train(*fenced_, "fenced", -1, &stored);
  ExpectSameRuns("cpu", "fenced");
}

INSTANTIATE_TEST_SUITE_P(Orders, FencedTraining, FencedOrders(), FencedOrderName);

}  // namespace
}  // namespace folio
