#include "folio/train/trainer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <map>

#include "folio/base/parallel.h"
#include "folio/io/test_files.h"
#include "folio/model/checkpoint.h"
#include "folio/model/test_models.h"
#include "folio/train/test_data.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

class Training : public InTemporaryDirectory {
 protected:
  Training() {
    model_ = TinyConfig();
    model_.n_embd = 12;
    model_.embd_pdrop = model_.attn_pdrop = model_.resid_pdrop = 0.2;
    config_.batch_size = 2;
    config_.grad_accumulation = 2;
    config_.max_steps = 20;
    config_.learning_rate = 1e-2;
    config_.warmup_steps = 3;
    config_.decay_steps = 20;
    config_.eval_every = 5;
    config_.eval_batches = 2;
  }
  ~Training() override { SetThreads(threads_); }
  void SetUp() override {
    InTemporaryDirectory::SetUp();
    data_ = MakeData("data", 400, 93);
  }

  std::unique_ptr<Dataset> MakeData(const char* name, int64_t train, int64_t val) {
    return MakeDataset(At(name), RandomTokens(train, model_.vocab_size, 1),
                       RandomTokens(val, model_.vocab_size, 2), model_.vocab_size);
  }
  Trainer Make(const std::string& run, TrainerHooks hooks = {}) {
    fs::create_directories(At(run));
    return Trainer(*backend_, model_, config_, *data_, At(run), std::move(hooks));
  }
  TrainResult Run(const std::string& run) { return Make(run).Run(); }
  // Runs until `step` steps are done, then asks to stop.
  TrainResult RunUntil(const std::string& run, int64_t step, bool resume = false) {
    int64_t done = 0;
    TrainerHooks hooks;
    hooks.on_step = [&](const StepMetrics& m) { done = m.step + 1; };
    hooks.stop_requested = [&] { return done == step; };
    Trainer trainer = Make(run, hooks);
    if (resume) trainer.Resume();
    return trainer.Run();
  }
  TrainResult Resume(const std::string& run) {
    Trainer trainer = Make(run);
    trainer.Resume();
    return trainer.Run();
  }

  // Contents of all files below a directory.
  std::map<std::string, std::string> Files(const std::string& dir) const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(At(dir))) {
      if (!entry.is_regular_file()) continue;
      files[fs::relative(entry.path(), At(dir)).string()] = ReadFile(entry.path());
    }
    EXPECT_FALSE(files.empty()) << dir;
    return files;
  }
  void ExpectSameFiles(const std::string& a, const std::string& b) const {
    const auto one = Files(a), two = Files(b);
    ASSERT_EQ(one.size(), two.size());
    for (const auto& [name, bytes] : one) {
      ASSERT_TRUE(two.contains(name)) << name;
      EXPECT_TRUE(two.at(name) == bytes) << name << " differs in " << a << " and " << b;
    }
  }
  std::vector<int64_t> LoggedSteps(const std::string& run) const {
    std::vector<int64_t> steps;
    for (const StepMetrics& m : ReadRunLog(At(run))) steps.push_back(m.step);
    return steps;
  }
  static std::vector<int64_t> UpTo(int64_t last) {
    std::vector<int64_t> steps;
    for (int64_t step = 0; step <= last; ++step) steps.push_back(step);
    return steps;
  }

  int threads_ = Threads();
  GptConfig model_;
  TrainConfig config_;
  std::unique_ptr<Backend> backend_ = MakeBackend("cpu");
  std::unique_ptr<Dataset> data_;
};

TEST_F(Training, CheckpointsDoNotDependOnThreads) {
  model_.n_embd = 96;  // wide enough that every operation is cut into several tasks
  model_.n_positions = 70;
  config_.batch_size = 3;
  config_.eval_every = 10;
  for (const int threads : {1, 2, 3}) {
    SetThreads(threads);
    Run("run" + std::to_string(threads));
  }
  EXPECT_EQ(Files("run1/last").size(), 4u);  // config, weights, state, moments
  ExpectSameFiles("run1/last", "run2/last");
  ExpectSameFiles("run1/last", "run3/last");
}

TEST_F(Training, MetricsTellEveryStepOnce) {
  const TrainResult result = Run("run");
  EXPECT_EQ(result.step, 20);
  EXPECT_EQ(result.tokens, 20 * 2 * 2 * 5);
  EXPECT_FALSE(result.stopped);
  const std::vector<StepMetrics> log = ReadRunLog(At("run"));
  EXPECT_EQ(LoggedSteps("run"), UpTo(20));
  for (const StepMetrics& m : log) {
    EXPECT_EQ(m.loss.has_value(), m.step < 20) << m.step;
    EXPECT_EQ(m.val_loss.has_value(), m.step % 5 == 0) << m.step;
    EXPECT_EQ(m.tokens, std::min<int64_t>(m.step + 1, 20) * 20) << m.step;
  }
  EXPECT_EQ(result.evaluation->val_loss, log.back().val_loss);
}

TEST_F(Training, AnotherSeedIsAnotherRun) {
  config_.max_steps = 2;
  Run("a");
  config_.seed = 7;
  Run("b");
  EXPECT_NE(Files("a/last"), Files("b/last"));
}

TEST_F(Training, AccumulationIsTheOneBigBatchWithDropoutToo) {
  config_.max_steps = 4;
  Run("parts");
  config_.batch_size = 4;
  config_.grad_accumulation = 1;
  Run("whole");
  const std::vector<StepMetrics> parts = ReadRunLog(At("parts")), whole = ReadRunLog(At("whole"));
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(*parts[i].loss, *whole[i].loss, 1e-5) << i;
    EXPECT_NEAR(*parts[i].grad_norm, *whole[i].grad_norm, 1e-5) << i;
    EXPECT_EQ(parts[i].tokens, whole[i].tokens) << i;
  }
}

class Resuming : public Training, public testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    Training::SetUp();
    if (GetParam() == "epochs") config_.order = "epochs";
    if (GetParam() == "torch") {
      config_.rng = "torch";
      model_.embd_pdrop = model_.attn_pdrop = model_.resid_pdrop = 0;
    }
  }
};

TEST_P(Resuming, GoesOnBitForBit) {
  Run("straight");
  RunUntil("stopped", 10);  // an evaluation is due at 10, and still to be done
  EXPECT_EQ(Resume("stopped").step, 20);
  ExpectSameFiles("straight/last", "stopped/last");
  ExpectSameFiles("straight/best", "stopped/best");

  RunUntil("twice", 7);
  RunUntil("twice", 13, true);
  Resume("twice");
  ExpectSameFiles("straight/last", "twice/last");

  config_.max_steps = 10;  // the evaluation at 10 is done, and not to be done again
  Run("extended");
  config_.max_steps = 20;
  Resume("extended");
  ExpectSameFiles("straight/last", "extended/last");
  ExpectSameFiles("straight/best", "extended/best");

  const std::vector<StepMetrics> expected = ReadRunLog(At("straight"));
  for (const char* run : {"stopped", "twice", "extended"}) {
    EXPECT_EQ(LoggedSteps(run), UpTo(20)) << run;
    const std::vector<StepMetrics> found = ReadRunLog(At(run));
    for (size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
      EXPECT_EQ(found[i].loss, expected[i].loss) << run << ", step " << i;
      EXPECT_EQ(found[i].val_loss, expected[i].val_loss) << run << ", step " << i;
      EXPECT_EQ(found[i].tokens, expected[i].tokens) << run << ", step " << i;
    }
  }
}

TEST_P(Resuming, AStopInTheMiddleOfAnEvaluationIsNotSeen) {
  Run("straight");
  int64_t steps = 0;
  bool stop = false;
  TrainerHooks hooks;
  hooks.on_step = [&](const StepMetrics& m) { steps = m.step + 1; };
  hooks.on_evaluation_progress = [&](int64_t done, int64_t) { stop = steps == 10 && done == 3; };
  hooks.stop_requested = [&] { return stop; };
  const TrainResult result = Make("stopped", hooks).Run();
  EXPECT_EQ(result.step, 10);
  EXPECT_TRUE(result.stopped);
  EXPECT_FALSE(result.evaluation);
  Resume("stopped");
  ExpectSameFiles("straight/last", "stopped/last");
  ExpectSameFiles("straight/best", "stopped/best");
  EXPECT_EQ(LoggedSteps("stopped"), UpTo(20));
}

TEST_P(Resuming, ACrashAfterTheLastCheckpointIsNotSeen) {
  Run("straight");
  config_.checkpoint_every = 4;
  TrainerHooks hooks;
  hooks.on_step = [](const StepMetrics& m) {
    if (m.step == 10) throw std::runtime_error("crash");
  };
  EXPECT_THROW(Make("crashed", hooks).Run(), std::runtime_error);
  std::ofstream(At("crashed") / kMetricsFile, std::ios::app) << "{\"step\":11,\"lo";
  config_.checkpoint_every = 0;
  Trainer trainer = Make("crashed");
  trainer.Resume();
  EXPECT_EQ(trainer.step(), 8);
  trainer.Run();
  ExpectSameFiles("straight/last", "crashed/last");
  EXPECT_EQ(LoggedSteps("crashed"), UpTo(20));
}

INSTANTIATE_TEST_SUITE_P(Numbers, Resuming, testing::Values("folio", "epochs", "torch"));

TEST_F(Training, StopsAfterTheStepWithACheckpoint) {
  const TrainResult result = RunUntil("run", 3);
  EXPECT_EQ(result.step, 3);
  EXPECT_TRUE(result.stopped);
  Trainer trainer = Make("run");
  trainer.Resume();
  EXPECT_EQ(trainer.step(), 3);
}

TEST_F(Training, ZeroStepsLeaveTheFirstWeights) {
  config_.max_steps = 0;
  Trainer trainer = Make("run");
  const TrainResult result = trainer.Run();
  EXPECT_EQ(result.step, 0);
  EXPECT_FALSE(result.stopped);
  EXPECT_TRUE(result.evaluation);
  const auto saved = LoadModel(At("run/last"));
  EXPECT_EQ(std::memcmp(saved->flat().raw(), trainer.weights().flat().raw(), saved->flat().bytes()),
            0);
  EXPECT_EQ(LoggedSteps("run"), UpTo(0));
}

TEST_F(Training, DivergenceLeavesTheCheckpointsAsTheyWere) {
  config_.max_steps = 3;
  Run("run");
  const auto last = Files("run/last"), best = Files("run/best");
  config_.max_steps = 20;
  config_.learning_rate = 1e30;
  config_.warmup_steps = 0;
  config_.schedule = "constant";
  for (const int64_t eval_every : {100, 1}) {  // seen by a step, and by an evaluation
    config_.eval_every = eval_every;
    const std::string error = ErrorOf([&] { Resume("run"); }, ErrorKind::kDiverged);
    EXPECT_TRUE(Contains(error, "training diverged at step 4", "run/last (step 3)")) << error;
    EXPECT_EQ(Files("run/last"), last);
    EXPECT_EQ(Files("run/best"), best);
  }
}

TEST_F(Training, DivergenceBeforeAnyCheckpointSaysSo) {
  config_.learning_rate = 1e30;
  config_.warmup_steps = 0;
  config_.schedule = "constant";
  EXPECT_TRUE(Contains(ErrorOf([&] { Run("run"); }, ErrorKind::kDiverged), "no checkpoint"));
  EXPECT_FALSE(fs::exists(At("run/last")));
}

TEST_F(Training, TheBestCheckpointStaysWhenLaterOnesAreWorse) {
  // Random numbers cannot be learnt: what is learnt by heart makes the held-out loss worse.
  model_.embd_pdrop = model_.attn_pdrop = model_.resid_pdrop = 0;
  data_ = MakeData("few", 12, 93);
  config_.max_steps = 40;
  config_.decay_steps = 40;
  std::map<int64_t, double> losses;
  std::map<int64_t, std::vector<float>> weights;
  Trainer* running = nullptr;
  TrainerHooks hooks;
  hooks.on_evaluation = [&](int64_t step, const Evaluation& evaluation) {
    if (step == 0) return;
    losses[step] = evaluation.val_loss;
    const auto flat = Elements<float>(running->weights().flat());
    weights[step].assign(flat.begin(), flat.end());
  };
  Trainer trainer = Make("run", hooks);
  running = &trainer;
  const TrainResult result = trainer.Run();
  const auto best =
      std::min_element(losses.begin(), losses.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  ASSERT_LT(best->first, 40);
  EXPECT_EQ(result.best_step, best->first);
  EXPECT_EQ(result.best_val_loss, best->second);
  EXPECT_GT(result.evaluation->val_loss, best->second);
  const auto saved = LoadModel(At("run/best"));
  const auto flat = Elements<float>(saved->flat());
  EXPECT_EQ(std::vector<float>(flat.begin(), flat.end()), weights[best->first]);
  EXPECT_FALSE(fs::exists(At("run/best/train_state")));
}

TEST_F(Training, AWholeSetEvaluationCountsEveryHeldOutTokenOnce) {
  config_.eval_batches = 0;
  config_.max_steps = 0;
  Trainer trainer = Make("run");
  const double found = trainer.Run().evaluation->val_loss;
  const int64_t T = model_.n_positions, targets = data_->val().size() - 1;
  ASSERT_NE(targets % T, 0);
  double sum = 0;
  for (int64_t start = 0; start < targets; start += T) {
    const int64_t count = std::min(T, targets - start);
    std::vector<int32_t> tokens(static_cast<size_t>(count) + 1);
    data_->val().Read(start, tokens);
    GptPass pass(*backend_, model_, 1, count, PassKind::kForward);
    const std::span<const int32_t> all = tokens;
    pass.Forward(trainer.weights().params(), all.first(static_cast<size_t>(count)));
    sum += pass.Loss(trainer.weights().params(), all.subspan(1));
  }
  EXPECT_NEAR(found, sum / static_cast<double>(targets), 1e-6 * found);
}

TEST_F(Training, EvaluationsDoNotDisturbTheRun) {
  Run("often");
  config_.eval_every = 0;
  Run("once");
  EXPECT_EQ(Files("often/last").at("model.safetensors"),
            Files("once/last").at("model.safetensors"));
}

TEST_F(Training, RefusesDataShorterThanAWindow) {
  data_ = MakeData("short", 5, 93);
  EXPECT_TRUE(Contains(ErrorOf([&] { Run("run"); }, ErrorKind::kInput), "train.bin",
                       "shorter than one window", "6 tokens, the file has 5"));
  data_ = MakeData("short_val", 400, 3);
  EXPECT_TRUE(Contains(ErrorOf([&] { Run("run"); }, ErrorKind::kInput), "val.bin"));
}

TEST_F(Training, RefusesAContextThatTheModelDoesNotHave) {
  config_.context = 6;
  EXPECT_TRUE(Contains(ErrorOf([&] { Run("run"); }, ErrorKind::kUsage), "train.context", "6", "5"));
}

TEST_F(Training, RefusesTorchNumbersForWhatTorchWouldDrawOtherwise) {
  config_.rng = "torch";
  EXPECT_TRUE(Contains(ErrorOf([&] { Run("run"); }, ErrorKind::kUsage), "without dropout"));
  model_.embd_pdrop = model_.attn_pdrop = model_.resid_pdrop = 0;
  config_.order = "epochs";
  EXPECT_TRUE(Contains(ErrorOf([&] { Run("run"); }, ErrorKind::kUsage), "--rng torch"));
}

TEST_F(Training, RefusesToResumeAnotherModelOrNothing) {
  EXPECT_TRUE(Contains(ErrorOf([&] { Resume("empty"); }, ErrorKind::kInput), "last"));
  config_.max_steps = 1;
  Run("run");
  model_.n_head = 3;
  EXPECT_TRUE(Contains(ErrorOf([&] { Resume("run"); }, ErrorKind::kInput), "another model"));
  model_ = TinyConfig();
  EXPECT_TRUE(Contains(ErrorOf([&] { Resume("run"); }, ErrorKind::kInput), "another model"));
}

TEST_F(Training, HooksAreCalledWhenTheySay) {
  std::vector<int64_t> samples, checkpoints;
  TrainerHooks hooks;
  hooks.sample_every = 8;
  hooks.on_sample = [&](int64_t step, const GptWeights&) { samples.push_back(step); };
  hooks.on_checkpoint = [&](int64_t step, const fs::path&) { checkpoints.push_back(step); };
  hooks.save_tokenizer = [](const fs::path& dir) { WriteFileAtomically(dir / "tokenizer", "t"); };
  Make("run", hooks).Run();
  EXPECT_EQ(samples, (std::vector<int64_t>{8, 16}));
  EXPECT_EQ(checkpoints, (std::vector<int64_t>{5, 10, 15, 20}));
  EXPECT_TRUE(fs::exists(At("run/last/tokenizer")));
  EXPECT_TRUE(fs::exists(At("run/best/tokenizer")));
}

}  // namespace
}  // namespace folio
