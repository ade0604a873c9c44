#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

#include "folio/backend/backend.h"
#include "folio/backend/decorated_backends.h"
#include "folio/io/checksums.h"
#include "folio/model/transformer.h"
#include "folio/model_files/checkpoint.h"
#include "folio/train/judged_step.h"
#include "folio/train/test_training.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

TEST(RunningMoments, AreThoseOfAllValuesAsLongAsTheyAreFew) {
  RunningMoments moments;
  for (const double value : {2.0, 4.0, 9.0}) moments.Add(value);
  EXPECT_DOUBLE_EQ(moments.mean, 5);
  EXPECT_DOUBLE_EQ(moments.variance, 26.0 / 3);
}

TEST(RunningMoments, ForgetWhatIsLongPast) {
  RunningMoments moments;
  for (int i = 0; i < 100; ++i) moments.Add(1000);
  for (int i = 0; i < 2000; ++i) moments.Add(i % 2 == 0 ? 1 : 3);
  EXPECT_NEAR(moments.mean, 2, 0.05);
  EXPECT_NEAR(moments.variance, 1, 0.05);
  EXPECT_NEAR(moments.Above(7), 5, 0.2);
  EXPECT_EQ(moments.Above(1), 0);
}

TEST(RunningMoments, JudgeNothingThatTheyHardlyKnow) {
  RunningMoments moments;
  for (int i = 0; i < 19; ++i) moments.Add(1 + 0.1 * (i % 2));
  EXPECT_EQ(moments.Above(100), 0);
  moments.Add(1);
  EXPECT_GT(moments.Above(100), 100);
  RunningMoments still;
  for (int i = 0; i < 30; ++i) still.Add(3);
  EXPECT_EQ(still.Above(3.02), 0);  // noise
  EXPECT_EQ(still.Above(4), HUGE_VAL);
}

// The cpu backend with what goes wrong at certain steps: gradients are about to be measured there,
// or the losses of a batch were just computed.
class UpsetBackend final : public GenericBackend<UpsetBackend> {
 public:
  std::string name() const override { return "upset"; }
  std::string description() const override { return "wrong on purpose"; }
  bool Supports(Dtype dtype) const override { return cpu_->Supports(dtype); }
  Dtype PreferredDtype() const override { return cpu_->PreferredDtype(); }

  template <class Op>
  void Apply(const Op& op) {
    if constexpr (std::is_same_v<Op, SumOfSquares>) {
      // The gradient is measured piece by piece, from its beginning on.
      if (begin == nullptr) begin = op.x.raw();
      if (on_gradient && op.x.raw() == begin) on_gradient(op.x.raw());
    }
    cpu_->Run(op);
    if constexpr (std::is_same_v<Op, CrossEntropy>) {
      if (on_losses) on_losses(op.losses);
    }
    if constexpr (std::is_same_v<Op, AdamWUpdate>) adamw_steps.insert(op.step);
  }

  std::function<void(std::byte* grads)> on_gradient = {};
  std::function<void(const Tensor& losses)> on_losses = {};
  std::set<int64_t> adamw_steps;
  const std::byte* begin = nullptr;  // of the gradient of the trainer that is at work

 private:
  std::unique_ptr<Backend> cpu_ = MakeBackend("cpu");
};

// Runs on a backend that is upset at the steps in `bad_`.
class Health : public Training {
 protected:
  Health() { config_.eval_every = 0; }

  UpsetBackend& Upset() {
    auto upset = std::make_unique<UpsetBackend>();
    UpsetBackend& result = *upset;
    upset_ = &result;
    backend_ = std::move(upset);
    return result;
  }
  // `value` takes the place of an element of this parameter's gradient at the bad steps.
  UpsetBackend& UpsetGradient(const std::string& parameter, float value = NAN) {
    UpsetBackend& upset = Upset();
    upset.on_gradient = [this, parameter, value](std::byte* begin) {
      if (!bad_.contains(step_)) return;
      const ParamTable table(model_);
      const Tensor grads(begin, Dtype::kF32, {table.trained_size()});
      for (const ParamInfo& info : table.params()) {
        if (info.name == parameter) table.View(info, grads).data<float>()[1] = value;
      }
    };
    return upset;
  }
  UpsetBackend& UpsetLoss(float value) {
    UpsetBackend& upset = Upset();
    upset.on_losses = [this, value](const Tensor& losses) {
      if (bad_.contains(step_)) losses.data<float>()[0] = value;
    };
    return upset;
  }
  // From `first`, or where the run was left, until `last` steps are done.
  TrainResult RunTo(const std::string& run, int64_t last, bool resume = false) {
    step_ = 0;
    if (upset_ != nullptr) upset_->begin = nullptr;
    TrainerHooks hooks;
    hooks.on_step = [&](const StepMetrics& m) { step_ = m.step + 1; };
    hooks.stop_requested = [&] { return step_ >= last; };
    hooks.on_rollback = [&](int64_t from, int64_t to, const std::string& why) {
      step_ = to;
      if (on_rollback_) on_rollback_(from, to, why);
    };
    Trainer trainer = Make(run, hooks);
    if (resume) trainer.Resume();
    step_ = trainer.step();
    return trainer.Run();
  }

  UpsetBackend* upset_ = nullptr;
  std::set<int64_t> bad_;
  int64_t step_ = 0;
  std::function<void(int64_t from, int64_t to, const std::string& why)> on_rollback_ = {};
};

TEST_F(Health, AStepWithAGradientThatIsNotFiniteLeavesAllAsItWas) {
  const std::string parameter = "transformer.h.1.attn.c_proj.weight";
  UpsetBackend& upset = UpsetGradient(parameter);
  RunTo("before", 7);
  upset.adamw_steps.clear();
  bad_ = {7};
  RunTo("run", 8);
  for (const char* file : {"model.safetensors", "train_state/optimizer.safetensors"}) {
    EXPECT_EQ(Files("run/last").at(file), Files("before/last").at(file)) << file;
  }
  EXPECT_EQ(upset.adamw_steps, (std::set<int64_t>{1, 2, 3, 4, 5, 6, 7}));
  const TrainResult result = RunTo("run", 20, true);
  EXPECT_EQ(*upset.adamw_steps.rbegin(), 19);
  EXPECT_EQ(result.skipped, 1);
  EXPECT_EQ(result.tokens, 20 * 2 * 2 * 5);
  const std::vector<StepMetrics> log = ReadRunLog(At("run"));
  ASSERT_EQ(LoggedSteps("run"), UpTo(19));
  for (const StepMetrics& m : log) {
    EXPECT_EQ(m.skipped, m.step == 7 ? "non-finite gradient" : "") << m.step;
    EXPECT_EQ(m.skipped_parameter, m.step == 7 ? parameter : "") << m.step;
  }
}

TEST_F(Health, TheFirstTensorIsThatOfTheLastLayer) {
  const ParamTable table(model_);
  const GptWeights grads(model_);
  EXPECT_EQ(FirstNonFinite(table, grads.flat()), "");
  grads.params().wpe.data<float>()[3] = NAN;
  EXPECT_EQ(FirstNonFinite(table, grads.flat()), "transformer.wpe.weight");
  grads.params().h[0].mlp.c_fc.weight.data<float>()[3] = -HUGE_VALF;
  grads.params().h[1].ln_1.bias.data<float>()[0] = NAN;
  EXPECT_EQ(FirstNonFinite(table, grads.flat()), "transformer.h.1.ln_1.bias");
}

TEST_F(Health, ALossThatIsNotFiniteIsToldAsSuch) {
  UpsetLoss(HUGE_VALF);
  bad_ = {3, 4};
  EXPECT_EQ(RunTo("run", 20).skipped, 2);
  const std::vector<StepMetrics> log = ReadRunLog(At("run"));
  EXPECT_EQ(log.at(3).skipped, "non-finite loss");
  EXPECT_EQ(log.at(4).skipped, "non-finite loss");
  EXPECT_EQ(log.at(5).skipped, "");
}

TEST_F(Health, NoneMayBeSkippedIfSettingsSaySo) {
  config_.max_skipped_steps = 0;
  UpsetLoss(NAN);
  bad_ = {4};
  const std::string error = ErrorOf([&] { RunTo("run", 20); }, ErrorKind::kDiverged);
  EXPECT_TRUE(Contains(error, "diverged at step 4", "loss nan")) << error;
}

TEST_F(Health, ManyInARowAreADivergence) {
  config_.max_rollbacks = 0;
  config_.max_skipped_steps = 2;
  config_.checkpoint_every = 1;
  UpsetGradient("transformer.ln_f.weight");
  bad_ = {2, 3, 5, 6};  // never more than two in a row
  EXPECT_EQ(RunTo("well", 20).skipped, 4);
  bad_ = {6, 7, 8};
  RunTo("before", 6);
  const std::string error = ErrorOf([&] { RunTo("run", 20); }, ErrorKind::kDiverged);
  EXPECT_TRUE(Contains(error, "training diverged at step 8", "non-finite gradient", "norm nan",
                       "first in transformer.ln_f.weight", "last of 3 skipped in a row",
                       "the last good checkpoint is", "run/steps/5 (step 5)"))
      << error;
  ExpectSameFiles("run/last", "before/last");
}

TEST_F(Health, SkippedStepsAreCountedOverAStop) {
  config_.max_skipped_steps = 3;
  UpsetGradient("transformer.ln_f.weight");
  bad_ = {4, 5, 6, 9};
  RunTo("straight", 20);
  RunTo("parts", 6);
  RunTo("parts", 20, true);
  ExpectSameFiles("straight/last", "parts/last");
  bad_ = {4, 5, 6, 7};
  RunTo("stopped", 6);
  const std::string error = ErrorOf([&] { RunTo("stopped", 20, true); }, ErrorKind::kDiverged);
  EXPECT_TRUE(Contains(error, "diverged at step 7", "last of 4 skipped")) << error;
}

// No operation of a healthy run writes a number that is not finite, also not where nobody looks.
TEST_F(Health, CheckedNumbersLeaveTheSameFiles) {
  config_.eval_every = 5;
  for (const std::string kind : {"fp32", "bf16", "recompute", "adapters"}) {
    if (kind == "bf16") config_.dtype = kind;
    config_.recompute = kind == "recompute";
    if (kind == "adapters") config_.lora = {.rank = 2, .dropout = 0.1};
    backend_ = MakeBackend("cpu");
    Run("plain_" + kind);
    auto finite = std::make_unique<FiniteBackend>(MakeBackend("cpu"));
    finite->Watch({});
    backend_ = std::move(finite);
    Run("checked_" + kind);
    ExpectSameFiles("plain_" + kind + "/last", "checked_" + kind + "/last");
  }
}

TEST_F(Health, PlacesInMemoryAreNamed) {
  const Trainer trainer = Make("run");
  const BlockParams& h = trainer.weights().params().h[1];
  EXPECT_EQ(trainer.NameOf(h.mlp.c_fc.weight.raw() + h.mlp.c_fc.weight.bytes() - 4),
            "transformer.h.1.mlp.c_fc.weight");
  EXPECT_EQ(trainer.NameOf(reinterpret_cast<const std::byte*>(&trainer)), "");
}

// Runs that are lost at steps 11 to 13, and not again when they come back there.
class Rollbacks : public Health {
 protected:
  Rollbacks() {
    config_.checkpoint_every = 5;
    config_.max_skipped_steps = 2;
    on_rollback_ = [this](int64_t from, int64_t to, const std::string& why) {
      rollbacks_ += std::to_string(from) + " to " + std::to_string(to) + ", " + why + "; ";
      if (!again_) bad_.clear();
    };
  }
  void SetUp() override {
    Health::SetUp();
    UpsetGradient("transformer.ln_f.weight");
  }
  TrainResult RunLost(const std::string& run, int64_t last = 20, bool resume = false) {
    bad_ = {11, 12, 13};
    return RunTo(run, last, resume);
  }

  std::string rollbacks_;
  bool again_ = false;
};

TEST_F(Rollbacks, GoBackAndLeaveOutTheData) {
  EXPECT_EQ(RunLost("run").rollbacks, 1);
  EXPECT_TRUE(Contains(rollbacks_, "13 to 10, from step 13: non-finite gradient"));
  EXPECT_EQ(LoggedSteps("run"), UpTo(19));
  for (const StepMetrics& m : ReadRunLog(At("run"))) {
    EXPECT_EQ(m.skipped, "") << m.step;
    EXPECT_EQ(m.rolled_back.substr(0, 13), m.step == 10 ? "from step 13:" : "") << m.step;
  }
  // The same by hand: step 10 takes the data of step 14.
  config_.checkpoint_every = 0;
  bad_.clear();
  RunTo("by_hand", 10);
  const std::filesystem::path state = At("by_hand/last/train_state/state.json");
  WriteFileAtomically(
      state, Replaced(ReadFile(state), "\n}", ",\n \"rollbacks\": 1,\n \"data_skipped\": 4\n}"));
  WriteChecksums(At("by_hand/last"));
  Resume("by_hand");
  Run("healthy");
  for (const char* file : {"model.safetensors", "train_state/optimizer.safetensors"}) {
    EXPECT_EQ(Files("run/last").at(file), Files("by_hand/last").at(file)) << file;
    EXPECT_NE(Files("run/last").at(file), Files("healthy/last").at(file)) << file;
  }
}

TEST_F(Rollbacks, AreTheSameInARunThatWasStopped) {
  RunLost("straight");
  for (const int64_t stop : {7, 10, 12, 13}) {
    const std::string run = "parts" + std::to_string(stop);
    RunLost(run, stop);
    RunLost(run, 20, true);
    ExpectSameFiles("straight/last", run + "/last");
    EXPECT_EQ(LoggedSteps(run), UpTo(19)) << stop;
  }
}

// Every step is saved: that before the first bad one has parameters nobody has tried.
TEST_F(Rollbacks, GoBackBehindWhatNobodyHasTried) {
  config_.checkpoint_every = 1;
  RunLost("run");
  EXPECT_TRUE(Contains(rollbacks_, "13 to 10,"));
}

TEST_F(Rollbacks, AreDoneSoOftenAndNoMore) {
  again_ = true;
  config_.max_rollbacks = 2;
  const std::string error = ErrorOf([&] { RunLost("run"); }, ErrorKind::kDiverged);
  EXPECT_TRUE(Contains(error, "diverged at step 13",
                       "; the run had returned to a checkpoint 2 times", "run/last (step 10)"))
      << error;
  EXPECT_EQ(Count(rollbacks_, "13 to 10"), 2u);
}

TEST_F(Rollbacks, WithoutACheckpointFromBeforeAreADivergence) {
  config_.checkpoint_every = 0;
  const std::string error = ErrorOf([&] { RunLost("run"); }, ErrorKind::kDiverged);
  EXPECT_TRUE(Contains(error, "no checkpoint had been written")) << error;
}

class Spikes : public Health {
 protected:
  Spikes() {
    config_.spike_zscore = 6;
    config_.max_steps = 60;
    config_.decay_steps = 60;
    config_.learning_rate = 1e-3;
  }
};

TEST_F(Spikes, OfTheLossAreSkipped) {
  UpsetLoss(100);
  bad_ = {30, 31, 40};
  EXPECT_EQ(RunTo("run", 60).skipped, 3);
  for (const StepMetrics& m : ReadRunLog(At("run"))) {
    EXPECT_EQ(m.skipped, bad_.contains(m.step) ? "loss spike" : "") << m.step;
  }
  config_.spike_zscore = 0;
  EXPECT_EQ(RunTo("off", 60).skipped, 0);
}

TEST_F(Spikes, OfTheGradientAreSkipped) {
  UpsetGradient("transformer.wte.weight", 1e4F);
  bad_ = {30};
  EXPECT_EQ(RunTo("run", 60).skipped, 1);
  EXPECT_EQ(ReadRunLog(At("run")).at(30).skipped, "gradient spike");
}

// With spikes sought or not.
TEST_F(Spikes, AFiniteBlowUpIsADivergence) {
  config_.max_skipped_steps = 4;
  config_.max_rollbacks = 0;
  UpsetLoss(1676);
  for (int64_t step = 30; step < 60; ++step) bad_.insert(step);
  for (const double zscore : {6.0, 0.0}) {
    config_.spike_zscore = zscore;
    const std::string error = ErrorOf([&] { RunTo("run", 60); }, ErrorKind::kDiverged);
    EXPECT_TRUE(Contains(error, "diverged at step 34", "loss blow-up")) << error;
  }
}

TEST(StepHealths, KnowALossThatTellsOfLostParameters) {
  StepHealth health;
  EXPECT_TRUE(health.BlownUp(HUGE_VAL, 65));
  EXPECT_FALSE(health.BlownUp(1676, 65));  // that may be how it begins
  health.Count({}, 4.2, 1, 0);
  EXPECT_FALSE(health.BlownUp(41, 65));
  EXPECT_TRUE(health.BlownUp(43, 65));
  health = {};
  health.Count({}, 300, 1, 0);
  EXPECT_FALSE(health.BlownUp(2900, 65));
  EXPECT_TRUE(health.BlownUp(3100, 65));
}

TEST_F(Spikes, AreTheSameInARunThatWasStopped) {
  UpsetLoss(40);
  bad_ = {30, 41, 42};
  RunTo("straight", 60);
  for (const int64_t stop : {13, 41, 50}) {
    const std::string run = "parts" + std::to_string(stop);
    RunTo(run, stop);
    RunTo(run, 60, true);
    ExpectSameFiles("straight/last", run + "/last");
  }
}

TEST_F(Spikes, LookingForThemLeavesAHealthyRunAsItIs) {
  RunTo("sought", 60);
  config_.spike_zscore = 0;
  RunTo("off", 60);
  EXPECT_EQ(Files("sought/last").at("model.safetensors"),
            Files("off/last").at("model.safetensors"));
  const std::string state = Files("off/last").at("train_state/state.json");
  EXPECT_FALSE(Contains(state, "skipped")) << state;
  EXPECT_FALSE(Contains(state, "running")) << state;
}

double Norm(const Tensor& x, double sum = 0) {
  for (const float value : Elements<float>(x)) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

TEST_F(Training, LayerNormsAreThoseOfTheirParts) {
  const GptWeights weights(model_), grads(model_);
  Scatter(weights, 1);
  Scatter(grads, 2);
  LayerNormMeter meter(*backend_, weights);
  meter.Begin();
  for (int i = 0; i < 4; ++i) weights.params().h[1].mlp.c_fc.weight.data<float>()[i] += 0.5F;
  weights.params().wpe.data<float>()[0] -= 3;
  const LayerNorms norms = meter.End(grads.flat());
  ASSERT_EQ(norms.grad.size(), static_cast<size_t>(model_.n_layer) + 1);
  double whole = 0, outside = 0;
  for (const double norm : norms.grad) whole += norm * norm;
  EXPECT_NEAR(std::sqrt(whole), Norm(grads.flat()), 1e-6 * Norm(grads.flat()));
  for (const ParamInfo& info : weights.table().params()) {
    const double norm = Norm(weights.table().View(info, weights.flat()));
    if (info.layer < 0) outside += norm * norm;
  }
  EXPECT_NEAR(norms.weight[0], std::sqrt(outside), 1e-6 * norms.weight[0]);
  EXPECT_NEAR(norms.update[0], 3, 1e-5);
  EXPECT_EQ(norms.update[1], 0);
  EXPECT_NEAR(norms.update[2], 1, 1e-5);
}

TEST_F(Training, LayerNormsAreInTheMetricsOnRequest) {
  TrainerHooks hooks;
  hooks.layer_norms_every = 4;
  Make("run", hooks).Run();
  for (const StepMetrics& m : ReadRunLog(At("run"))) {
    ASSERT_EQ(m.layer_norms.has_value(), m.loss && m.step % 4 == 0) << m.step;
    if (!m.layer_norms) continue;
    double sum = 0;
    for (const double norm : m.layer_norms->grad) sum += norm * norm;
    EXPECT_NEAR(std::sqrt(sum), *m.grad_norm, 1e-6 * *m.grad_norm) << m.step;
    for (const double norm : m.layer_norms->update) EXPECT_GT(norm, 0) << m.step;
  }
  Run("plain");
  ExpectSameFiles("run/last", "plain/last");
  EXPECT_FALSE(Contains(ReadFile(At("plain") / kMetricsFile), "norms"));
}

}  // namespace
}  // namespace folio
