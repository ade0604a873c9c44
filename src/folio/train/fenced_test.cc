// Runs whose weights, gradients and optimizer lie where the host cannot touch them leave the files
// of other runs.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "folio/backend/decorated_backends.h"
#include "folio/backend/test_fenced_orders.h"
#include "folio/model/test_models.h"
#include "folio/model_files/checkpoint.h"
#include "folio/train/test_rank_training.h"
#include "folio/train/train_step.h"
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

TEST_P(FencedTraining, LeavesThemWithCheckedNumbersToo) {
  config_.max_steps = 3;
  FiniteBackend finite(MakeFencedBackend(GetParam()));
  finite.Watch({});
  Train(*backend_, "cpu");
  Train(finite, "fenced");
  ExpectSameFiles("cpu/last", "fenced/last");
}

// The vocabulary in rows of 16. Without clipping, for which squares are summed in other groups.
TEST_P(FencedTraining, LeavesThemWithRowsOfPadding) {
  const auto padded = MakeFencedBackend(GetParam(), {.row_multiple = 16});
  ASSERT_NE(model_.vocab_size % 16, 0);
  config_.grad_clip = 0;
  for (const std::string dtype : {"fp32", "bf16"}) {
    config_.dtype = dtype;
    Train(*backend_, dtype);
    Train(*padded, "padded_" + dtype, 6);
    Train(*padded, "padded_" + dtype);
    ExpectSameFiles(dtype + "/last", "padded_" + dtype + "/last");
  }
}

TEST_P(FencedTraining, GoesOnWithWhatTheOtherBackendLeft) {
  config_.eval_every = 7;
  for (const std::string dtype : {"fp32", "bf16"}) {
    config_.dtype = dtype;
    Train(*backend_, dtype);
    Train(*fenced_, dtype + "_mixed", 6);
    Train(*backend_, dtype + "_mixed", 13);
    Train(*fenced_, dtype + "_mixed");
    ExpectSameFiles(dtype + "/last", dtype + "_mixed/last");
  }
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

// Where matrices have copies in bfloat16, these follow.
TEST_P(FencedTraining, TakesWeightsThatOthersHaveChanged) {
  const auto train = [&](Backend& backend) {
    GptWeights weights(TinyConfig(), Dtype::kF32, ParamPart::kAll, backend.memory());
    Scatter(weights, 6);
    TrainStep step(backend, weights, 1, 3, {.dtype = Dtype::kBF16});
    std::vector<double> losses;
    for (int64_t n = 1; n <= 4; ++n) {
      if (n == 3) {
        Scatter(weights, 7);
        step.WeightsChanged();
      }
      step.Begin();
      step.Accumulate(std::vector{1, 2, 3}, std::vector{2, 3, 4}, 1, {});
      step.Finish(1e-2, 1, n);
      losses.push_back(step.Losses()[0]);
    }
    return losses;
  };
  EXPECT_EQ(train(*fenced_), train(*backend_));
}

INSTANTIATE_TEST_SUITE_P(Orders, FencedTraining, FencedOrders(), FencedOrderName);

// A kind of training on ranks.
struct FencedRanksCase {
  std::string name;
  int data = 2, tensor = 1;
  std::string reduce = "fp32", dtype = "fp32";
  int64_t every = 1;
  bool lora = false;
  int64_t row_multiple = 1;
};

class FencedRanks : public TrainingOnRanks,
                    public testing::WithParamInterface<std::tuple<FencedRanksCase, FencedOrder>> {};

// Ranks whose memory the host cannot touch, from the start and from where others were.
TEST_P(FencedRanks, LeaveTheFilesOfTheCpu) {
  const FencedRanksCase& c = std::get<0>(GetParam());
  model_.n_embd = 48;  // blocks of which each rank owns some
  model_.n_head = 4;
  config_.grad_accumulation = 4;
  config_.max_steps = 5;
  config_.eval_batches = 2;
  config_.reduce_dtype = c.reduce;
  config_.reduce_every = c.every;
  config_.dtype = c.dtype;
  if (c.row_multiple > 1) config_.grad_clip = 0;
  const GptWeights base(model_);
  Scatter(base, 5);
  const StoredModel stored = AsStored(base);
  if (c.lora) {
    config_.lora = {.rank = 2, .targets = "c_attn,c_fc"};
    from_ = &stored;
  }
  const auto run = [&](const std::string& name, bool fenced, int64_t until = 100,
                       bool resume = false) {
    make_backend_ = [&c, fenced] {
      return fenced ? MakeFencedBackend(std::get<1>(GetParam()), {.row_multiple = c.row_multiple})
                    : MakeCpuBackend();
    };
    RunOn(c.data, c.tensor, name, until, resume);
  };
  run("cpu", false);
  run("fenced", true);
  if (c.row_multiple > 1) {  // squares are summed in other groups
    ExpectSameFiles("cpu/last", "fenced/last");
  } else {
    ExpectSameRun("cpu", "fenced");
  }
  EXPECT_EQ(samples_["fenced"], samples_["cpu"]);
  run("mixed", true, 2);
  run("mixed", false, 3, true);
  run("mixed", true, 100, true);
  if (c.row_multiple > 1) return ExpectSameFiles("cpu/last", "mixed/last");
  ExpectSameRun("cpu", "mixed");
}

// Loses the weights once, in the sixth update.
class LosingBackend final : public ForwardingBackend<LosingBackend> {
 public:
  using ForwardingBackend::ForwardingBackend;

  template <class Op>
  void Apply(const Op& op) {
    backend().Run(op);
    if constexpr (std::is_same_v<Op, AdamWUpdate>) {
      again_ = again_ || op.step < newest_;
      newest_ = op.step;
      if (op.step == 6 && !again_) backend().Run(Fill{.out = op.param, .value = NAN});
    }
  }

 private:
  int64_t newest_ = 0;
  bool again_ = false;
};

class LostFencedRanks : public TrainingOnRanks, public testing::WithParamInterface<FencedOrder> {};

TEST_P(LostFencedRanks, GoBackAsThoseOfTheCpu) {
  config_.grad_accumulation = 4;
  config_.checkpoint_every = 4;
  config_.max_skipped_steps = 1;
  config_.eval_every = 0;
  config_.max_steps = 10;
  for (const bool fenced : {false, true}) {
    make_backend_ = [&] {
      return std::make_unique<LosingBackend>(fenced ? MakeFencedBackend(GetParam())
                                                    : MakeCpuBackend());
    };
    RunOn(2, fenced ? "fenced" : "cpu");
  }
  ExpectSameRun("cpu", "fenced");
  const std::vector<StepMetrics> steps = ReadRunLog(At("fenced"));
  EXPECT_EQ(std::ranges::count_if(steps, [](const auto& m) { return !m.rolled_back.empty(); }), 1);
}

INSTANTIATE_TEST_SUITE_P(Orders, LostFencedRanks, FencedOrders(), FencedOrderName);

TEST(StepOfFencedRanks, WritesWhatArrivesOnceAndNoOldSum) {
  RunOnThreads(2, [](Group& group) {
    const auto backend = MakeFencedBackend();
    const GptConfig config = TinyConfig();
    GptWeights weights(config, Dtype::kF32, ParamPart::kAll, backend->memory());
    Scatter(weights, 6);
    TrainStep step(*backend, weights, 1, 3, {}, {.group = &group});
    const std::vector<int32_t> ids = {1, 2, 3};
    step.Begin();
    step.Accumulate(ids, ids, 1, {});
    EXPECT_GT(step.Finish(1e-2, 1, 1), 0);
    step.WaitForWeights();
    Scatter(weights, 7);
    const std::vector<float> changed = Copied<float>(weights.flat());
    step.WaitForWeights();
    EXPECT_EQ(Copied<float>(weights.flat()), changed);
    step.Begin();
    EXPECT_EQ(step.Norm(), 0);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Cases, FencedRanks,
    testing::Combine(
        testing::Values(
            FencedRanksCase{.name = "two"},
            FencedRanksCase{.name = "four_rounded", .data = 4, .reduce = "bf16"},
            FencedRanksCase{.name = "pairs", .every = 2},
            FencedRanksCase{
                .name = "pairs_rounded_bf16", .reduce = "bf16", .dtype = "bf16", .every = 2},
            FencedRanksCase{.name = "adapters", .lora = true},
            FencedRanksCase{.name = "padded", .row_multiple = 16},
            FencedRanksCase{.name = "padded_parts", .tensor = 2, .row_multiple = 16},
            FencedRanksCase{.name = "parts", .data = 1, .tensor = 2},
            FencedRanksCase{.name = "shared_parts", .tensor = 2}),
        FencedOrders()),
    [](const auto& test) {
      return std::get<0>(test.param).name + "_" + OrderName(std::get<1>(test.param));
    });

}  // namespace
}  // namespace folio
