#include "folio/train/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>

#include "folio/base/clock.h"
#include "folio/base/fields.h"
#include "folio/io/file.h"
#include "folio/model/adapters.h"
#include "folio/model/lora.h"
#include "folio/model/weight_init.h"
#include "folio/model_files/adapter_files.h"
#include "folio/model_files/checkpoint.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/tokenizer_file.h"
#include "folio/train/config.h"
#include "folio/train/test_training.h"
#include "tests/kit/expect.h"
#include "tests/kit/fields.h"
#include "tests/kit/near.h"
#include "tests/kit/thread_ranks.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

TEST_F(Training, CheckpointsDoNotDependOnThreads) {
  model_.n_embd = 96;  // wide enough that every operation is cut into several tasks
  model_.n_positions = 70;
  config_.batch_size = 3;
  config_.eval_every = 10;
  for (const std::string kind : {"fp32", "bf16", "adapters"}) {
    if (kind == "adapters") {
      config_.lora = {.rank = 5, .targets = "c_attn,c_proj,c_fc", .dropout = 0.1};
    } else {
      config_.dtype = kind;
    }
    for (const int threads : {1, 2, 3}) {
      SetThreads(threads);
      Run(kind + std::to_string(threads));
    }
    // two configs, weights, state, moments; config and weights of adapters
    EXPECT_EQ(Files(kind + "1/last").size(), kind == "adapters" ? 8u : 6u);
    ExpectSameFiles(kind + "1/last", kind + "2/last");
    ExpectSameFiles(kind + "1/last", kind + "3/last");
  }
}

TEST_F(Training, AdaptersLeaveTheModelAsItWas) {
  const GptWeights from(model_);
  Scatter(from, 5);
  config_.lora = {.rank = 2};
  const StoredModel stored = AsStored(from);
  MakeOn(*backend_, "run", {}, nullptr, nullptr, &stored).Run();
  SaveModel(At(""), from);
  EXPECT_EQ(ReadFile(At("run/base") / kWeightsFile), ReadFile(At(kWeightsFile)));
  const GptWeights adapted(ParamTable(model_, config_.lora));
  InitWeightsFrom(from, adapted);
  LoadAdapter(At("run/last") / kAdapterDir, adapted);
  SaveModel(At(""), *MergeAdapter(adapted));
  EXPECT_EQ(ReadFile(At("run/last") / kWeightsFile), ReadFile(At(kWeightsFile)));
  EXPECT_NE(ReadFile(At("run/base") / kWeightsFile), ReadFile(At(kWeightsFile)));
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
  double time = WallSeconds() - 600;
  for (const StepMetrics& m : log) {
    ASSERT_TRUE(m.time) << m.step;
    EXPECT_GE(*m.time, time) << m.step;
    time = *m.time;
  }
  EXPECT_LE(time, WallSeconds() + 1e-3);
}

TEST_F(Training, Bf16ComputesOtherwiseAndKeepsTheSameKindOfFiles) {
  Run("wide");
  config_.dtype = "bf16";
  Run("half");
  EXPECT_NE(Files("half/last"), Files("wide/last"));
  for (const auto& [name, bytes] : Files("wide/last")) {  // weights and moments in float32
    if (name.ends_with(".safetensors")) {
      EXPECT_EQ(Files("half/last").at(name).size(), bytes.size()) << name;
    }
  }
  const std::vector<StepMetrics> wide = ReadRunLog(At("wide")), half = ReadRunLog(At("half"));
  for (size_t i = 0; i < wide.size(); ++i) {
    if (!wide[i].val_loss) continue;
    EXPECT_NE(*half[i].val_loss, *wide[i].val_loss) << i;  // evaluations too
    EXPECT_NEAR(*half[i].val_loss, *wide[i].val_loss, 0.01) << i;
    EXPECT_NEAR(*half[i].train_eval_loss, *wide[i].train_eval_loss, 0.01) << i;
  }
}

// Conversations of up to two turns; their answers repeat the question's word, which has ids 5
// to 10.
std::unique_ptr<Dataset> MakeConversations(const std::filesystem::path& dir) {
  constexpr int32_t border = 0, user = 1, answer = 2, end = 3;
  const auto part = [&](int count) {
    std::vector<int32_t> ids;
    for (int i = 0; i < count; ++i) {
      for (int turn = 0; turn <= i % 2; ++turn) {
        const int32_t word = 5 + (i * 5 + turn * 2 + i / 6) % 6;
        ids.insert(ids.end(), {user, word, answer, word, end});
      }
      ids.push_back(border);
    }
    return ids;
  };
  MakeDataset(dir, part(60), part(12), 11);
  const Dataset plain(dir.string(), 11);
  const ChatMarks marks = {.border = border, .answer = {answer}, .end = end};
  DatasetInfo info = plain.info();
  info.chat.emplace().end = end;
  WriteConversations(dir.string(), TableByMarks(plain.train(), marks),
                     TableByMarks(plain.val(), marks), info);
  WriteDatasetInfo(dir.string(), info);
  return std::make_unique<Dataset>(dir.string());
}

TEST_F(Training, ConversationsAreLearntByTheirAnswersAlone) {
  model_.n_positions = 19;
  model_.n_embd = 24;
  model_.embd_pdrop = model_.attn_pdrop = model_.resid_pdrop = 0;
  config_.max_steps = 400;
  config_.decay_steps = 400;
  config_.eval_every = 0;
  config_.eval_batches = 0;
  data_ = MakeConversations(At("chats"));
  const TrainResult result = Run("run");
  // The word and the end of the turn can be known; what comes in a question cannot.
  EXPECT_LT(result.evaluation->val_loss, 0.1);
}

TEST_F(Training, ConversationsGoOnBitForBit) {
  model_.n_positions = 9;
  data_ = MakeConversations(At("chats"));
  Run("whole");
  RunUntil("parts", 7);
  Resume("parts");
  ExpectSameFiles("whole/last", "parts/last");
  SetThreads(3);
  Run("threads");
  ExpectSameFiles("whole/last", "threads/last");
}

// Presets of other kinds of models, with what is large made small.
TEST_F(Training, ModelsOfOtherKindsGoOnBitForBit) {
  for (const std::string preset : {"llama-tiny", "qwen3-tiny", "nanochat-tiny"}) {
    model_ = GptConfig();
    const std::vector<Field> fields = WithPrefix("model.", model_.Fields());
    for (const auto& [key, value] : FindPreset(preset).settings) {
      if (key.starts_with("model.")) SetField(FindField(fields, key), value, preset);
    }
    model_.vocab_size = 11;
    model_.n_positions = 9;
    model_.n_embd = 24;
    model_.n_layer = 2;
    if (model_.n_inner) model_.n_inner = 24;
    if (model_.head_dim) model_.head_dim = 6;
    Run(preset + "-whole");
    RunUntil(preset + "-parts", 7);
    Resume(preset + "-parts");
    ExpectSameFiles(preset + "-whole/last", preset + "-parts/last");
  }
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
  for (const std::string adapters : {"", " of adapters"}) {
    if (!adapters.empty()) config_.lora = {.rank = 2, .dropout = 0.3};
    config_.batch_size = 2;
    config_.grad_accumulation = 2;
    Run("parts" + adapters);
    config_.batch_size = 4;
    config_.grad_accumulation = 1;
    Run("whole" + adapters);
    const std::vector<StepMetrics> parts = ReadRunLog(At("parts" + adapters));
    const std::vector<StepMetrics> whole = ReadRunLog(At("whole" + adapters));
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(*parts[i].loss, *whole[i].loss, kFloat32Chain) << i;
      EXPECT_NEAR(*parts[i].grad_norm, *whole[i].grad_norm, kFloat32Chain) << i;
      EXPECT_EQ(parts[i].tokens, whole[i].tokens) << i;
    }
  }
}

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
  config_.max_skipped_steps = 0;
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
  config_.eval_every = 0;
  config_.learning_rate = 1e30;
  config_.warmup_steps = 0;
  config_.schedule = "constant";
  const std::string error = ErrorAndHelp([&] { Run("run"); }, ErrorKind::kDiverged);
  EXPECT_TRUE(Contains(error, "no checkpoint", "start again", "skipped in a row")) << error;
  EXPECT_FALSE(Contains(error, "--resume")) << error;
  EXPECT_FALSE(fs::exists(At("run/last")));
}

// Random numbers cannot be learnt: what is learnt by heart makes the held-out loss worse.
void LearnByHeart(GptConfig& model, TrainConfig& config) {
  model.embd_pdrop = model.attn_pdrop = model.resid_pdrop = 0;
  config.max_steps = config.decay_steps = 200;
}

TEST_F(Training, TheBestCheckpointStaysWhenLaterOnesAreWorse) {
  LearnByHeart(model_, config_);
  data_ = MakeData("few", 12, 93);
  config_.max_steps = config_.decay_steps = 40;
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

// Mean loss of the windows of up to T held-out tokens at these starts.
double MeanLoss(Backend& backend, const GptWeights& weights, const Dataset& data,
                const std::vector<int64_t>& starts) {
  double sum = 0, targets = 0;
  for (const int64_t start : starts) {
    const int64_t count = std::min(weights.config().n_positions, data.val().size() - 1 - start);
    std::vector<int32_t> tokens(static_cast<size_t>(count) + 1);
    data.val().Read(start, tokens);
    GptPass pass(backend, weights.config(), 1, count, PassKind::kForward);
    const std::span<const int32_t> all = tokens;
    pass.Forward(weights.params(), all.first(static_cast<size_t>(count)));
    sum += pass.Loss(weights.params(), all.subspan(1));
    targets += static_cast<double>(count);
  }
  return sum / targets;
}

// Every held-out token once, or in every window.
TEST_F(Training, AWholeSetEvaluationIsTheMeanOverItsWindows) {
  config_.eval_batches = 0;
  config_.max_steps = 0;
  const int64_t T = model_.n_positions, targets = data_->val().size() - 1;
  ASSERT_NE(targets % T, 0);
  for (const int64_t stride : {T, int64_t{1}}) {
    config_.eval_stride = stride == T ? 0 : stride;
    Trainer trainer = Make("run" + std::to_string(stride));
    const double found = trainer.Run().evaluation->val_loss;
    std::vector<int64_t> starts;
    const int64_t end = stride == T ? targets : targets - T + 1;
    for (int64_t start = 0; start < end; start += stride) starts.push_back(start);
    EXPECT_NEAR(found, MeanLoss(*backend_, trainer.weights(), *data_, starts), 1e-6 * found);
  }
}

TEST_F(Training, RefusesSettingsThatDoNotFit) {
  const auto refused = [this](const auto& edit) {
    const TrainConfig before = config_;
    edit(config_);
    const std::string refusal = RunRefusal();
    config_ = before;
    return refusal;
  };
  EXPECT_TRUE(Contains(refused([](TrainConfig& c) { c.eval_stride = 1; }), "train.eval_stride",
                       "train.eval_batches is 2"));
  EXPECT_TRUE(Contains(refused([](TrainConfig& c) { c.eval_stride = 6, c.eval_batches = 0; }),
                       ": train.eval_stride skips tokens", "it is 6, windows have 5"));
  EXPECT_TRUE(Contains(refused([](TrainConfig& c) { c.context = 6; }), "train.context", "6", "5"));
  EXPECT_TRUE(Contains(refused([](TrainConfig& c) { c.max_time = "soon"; }), "train.max_time",
                       "'soon' is not a time"));
  EXPECT_TRUE(Contains(refused([](TrainConfig& c) { c.budget = "soon"; }), "--budget",
                       "'soon' is not a time"));
}

// 7 targets in windows of 5: an epoch is two windows that share them, 3 positions idle.
TEST_F(Training, ALossIsTheMeanOverTheTargetsOfAStep) {
  data_ = MakeData("few", 8, 93);
  config_.order = "epochs";
  config_.batch_size = 2;
  config_.grad_accumulation = 1;
  config_.max_steps = 1;
  config_.eval_every = 0;
  model_.embd_pdrop = model_.attn_pdrop = model_.resid_pdrop = 0;
  Trainer first = Make("first");
  GptPass pass(*backend_, model_, 2, 5, PassKind::kForward);
  ShuffledEpochs sampler(data_->train(), {2, 5, 1}, static_cast<uint64_t>(config_.seed));
  Batch batch;
  sampler.Fill(0, 0, batch);
  EXPECT_EQ(batch.CountTargets(), 7);
  pass.Forward(first.weights().params(), batch.inputs);
  const double mean = pass.Loss(first.weights().params(), batch.targets) / 7;
  first.Run();
  EXPECT_NEAR(*ReadRunLog(At("first")).at(0).loss, mean, 1e-6 * mean);
}

TEST_F(Training, EvaluationsDoNotDisturbTheRun) {
  Run("often");
  config_.eval_every = 0;
  Run("once");
  EXPECT_EQ(Files("often/last").at("model.safetensors"),
            Files("once/last").at("model.safetensors"));
}

// 19 windows of 5 tokens, of which two make a batch.
TEST_F(Training, AnEvaluationHasNoMoreThanIsHeldOut) {
  config_.eval_batches = 0;
  Run("whole");
  for (const int64_t batches : {10, 50}) {
    config_.eval_batches = batches;
    TrainerHooks hooks;
    int64_t most = 0;
    hooks.on_evaluation_progress = [&](int64_t, int64_t total) { most = std::max(most, total); };
    const std::string run = "asked" + std::to_string(batches);
    Make(run, hooks).Run();
    EXPECT_EQ(most, 10 + 10);
    ExpectSameFiles("whole/last", run + "/last");
  }
  config_.eval_batches = 9;
  Run("drawn");
  EXPECT_NE(Files("drawn/last").at("train_state/state.json"),
            Files("whole/last").at("train_state/state.json"));
}

TEST_F(Training, RefusesDataShorterThanAWindow) {
  data_ = MakeData("short", 5, 93);
  EXPECT_TRUE(Contains(RunRefusal(ErrorKind::kInput), "train.bin", "shorter than one window",
                       "6 tokens, the file has 5"));
  data_ = MakeData("short_val", 400, 3);
  EXPECT_TRUE(Contains(RunRefusal(ErrorKind::kInput), "val.bin"));
}

TEST_F(Training, RefusesTorchNumbersForWhatTorchWouldDrawOtherwise) {
  config_.rng = "torch";
  EXPECT_TRUE(Contains(RunRefusal(), "without dropout"));
  for (double GptConfig::*rate : GptConfig::DropoutRates()) model_.*rate = 0;
  model_.mlp_pdrop = 0.25;
  EXPECT_TRUE(
      Contains(RunRefusal(), "mlp_pdrop is 0.25", "; PyTorch's dropout depends on the processor"));
  model_.mlp_pdrop = 0;
  config_.order = "epochs";
  EXPECT_TRUE(Contains(RunRefusal(), "--rng torch"));
}

TEST_F(Training, HooksAreCalledWhenTheySay) {
  std::vector<int64_t> samples, checkpoints;
  TrainerHooks hooks;
  hooks.sample_every = 8;
  hooks.on_sample = [&](int64_t step, const GptWeights&) { samples.push_back(step); };
  hooks.on_checkpoint = [&](int64_t step, const fs::path&) { checkpoints.push_back(step); };
  Make("run", hooks).Run();
  EXPECT_EQ(samples, (std::vector<int64_t>{8, 16}));
  EXPECT_EQ(checkpoints, (std::vector<int64_t>{5, 10, 15, 20}));
}

TEST_F(Training, CheckpointsHoldTheTokenizer) {
  const ByteTokenizer tokenizer;
  Make("run", {}, &tokenizer).Run();
  for (const char* checkpoint : {"run/last", "run/best"}) {
    EXPECT_EQ(LoadTokenizer(At(checkpoint).string())->hash(), tokenizer.hash());
  }
}

// The ends of a run before max_steps.
using EarlyStop = Training;

TEST_F(EarlyStop, PatienceEndsARunThatGetsNoBetter) {
  LearnByHeart(model_, config_);
  data_ = MakeData("few", 12, 93);
  config_.patience = 3;
  const TrainResult result = Run("run");
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(result.ended_by, "patience");
  EXPECT_EQ(result.step, result.best_step + 3 * config_.eval_every);
  const std::vector<StepMetrics> log = ReadRunLog(At("run"));
  EXPECT_EQ(log.back().ended_by, "patience");
  EXPECT_EQ(log.at(0).ended_by, "");
  // Until then it is the run without patience, of which a checkpoint of that step is known.
  config_.patience = 0;
  RunUntil("plain", result.step);
  EXPECT_EQ(Files("plain/last").at("model.safetensors"), Files("run/last").at("model.safetensors"));

  // It ends there again unless more patience is asked for.
  config_.patience = 3;
  EXPECT_EQ(Resume("run").step, result.step);
  config_.patience = 5;
  EXPECT_EQ(Resume("run").step, result.best_step + 5 * config_.eval_every);
}

TEST_F(EarlyStop, PatienceIsTheSameInARunThatWasStopped) {
  LearnByHeart(model_, config_);
  data_ = MakeData("few", 12, 93);
  config_.patience = 4;
  const TrainResult straight = Run("straight");
  ASSERT_EQ(straight.ended_by, "patience");
  RunUntil("parts", straight.best_step + config_.eval_every + 2);
  EXPECT_EQ(Resume("parts").step, straight.step);
  ExpectSameFiles("straight/last", "parts/last");
}

TEST_F(EarlyStop, TokensEndARun) {
  config_.max_tokens = 7 * 20 - 1;  // a step has 20
  const TrainResult result = Run("run");
  EXPECT_EQ(result.step, 7);
  EXPECT_EQ(result.ended_by, "max_tokens");
  EXPECT_TRUE(result.evaluation);
  EXPECT_EQ(ReadRunLog(At("run")).back().ended_by, "max_tokens");
  config_.max_tokens = 0;
  EXPECT_EQ(Resume("run").ended_by, "");
  Run("straight");
  ExpectSameFiles("straight/last", "run/last");
  EXPECT_EQ(LoggedSteps("run"), UpTo(20));
}

TEST_F(EarlyStop, TimeEndsARunWithItsCheckpointMade) {
  double now = 0;
  config_.max_time = "1000s";
  config_.eval_every = 0;
  config_.checkpoint_every = 2;
  TrainerHooks hooks;
  hooks.clock = [&] { return now; };
  hooks.on_step = [&](const StepMetrics&) { now += 75; };
  hooks.on_checkpoint = [&](int64_t, const auto&) { now += 50; };
  Trainer trainer = Make("run", hooks);
  const TrainResult result = trainer.Run();
  EXPECT_EQ(result.ended_by, "max_time");
  EXPECT_LE(now, 1000);
  EXPECT_GE(result.step, 6);  // of 75 to 125 s, and the last checkpoint
  EXPECT_LE(result.step, 12);
  EXPECT_EQ(ReadRunLog(At("run")).back().ended_by, "max_time");
  config_.max_time = "";
  Resume("run");
  Run("straight");
  ExpectSameFiles("straight/last", "run/last");
  EXPECT_EQ(LoggedSteps("run"), UpTo(20));
}

// A run that was stopped goes on as if it had not been.
class Resuming : public Training, public testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    Training::SetUp();
    if (GetParam() == "epochs" || GetParam() == "windows") config_.order = GetParam();
    if (GetParam() == "bf16") config_.dtype = "bf16";
    if (GetParam() == "adapters") {
      config_.lora = {.rank = 2, .targets = "c_attn,c_proj,c_fc", .dropout = 0.3};
    }
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

INSTANTIATE_TEST_SUITE_P(Numbers, Resuming,
                         testing::Values("folio", "epochs", "windows", "torch", "bf16",
                                         "adapters"));

// Lines that were written before have their own times, also those of a folio that kept none.
TEST_F(Training, AResumedLogKeepsItsTimes) {
  RunUntil("run", 2);
  std::vector<StepMetrics> before = ReadRunLog(At("run"));
  before.at(1).time.reset();
  RunLog rewritten(At("run"), 0);
  for (const StepMetrics& m : before) rewritten.Write(m);
  config_.max_steps = 3;
  Resume("run");
  const std::vector<StepMetrics> after = ReadRunLog(At("run"));
  EXPECT_EQ(after.at(0).time, before.at(0).time);
  EXPECT_FALSE(after.at(1).time);
  EXPECT_GT(after.at(2).time, before.at(0).time);
}

TEST_F(Training, AResumedRunHasTheAdaptersThatItBeganWith) {
  config_.max_steps = 1;
  config_.lora = {.rank = 2};
  Run("run");
  config_.lora.rank = 3;
  EXPECT_TRUE(Contains(ResumeRefusal("run"), ": the adapters differ from those of this run"));
  config_.lora = {};
  EXPECT_TRUE(Contains(ResumeRefusal("run"), "m.transformer.wte"));
  Run("whole");
  config_.lora.rank = 2;
  EXPECT_TRUE(Contains(ResumeRefusal("whole"), "base"));
}

TEST_F(Training, RefusesToResumeAnotherModelOrNothing) {
  EXPECT_TRUE(Contains(ResumeRefusal("empty"), "last"));
  config_.max_steps = 1;
  Run("run");
  model_.n_head = 3;
  EXPECT_TRUE(Contains(ResumeRefusal("run"), "a different model"));
  model_ = TinyConfig();
  EXPECT_TRUE(Contains(ResumeRefusal("run"), "a different model"));
}

// Runs that have a time to keep, by a clock of their own.
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
    std::vector<int64_t> steps(static_cast<size_t>(ranks));
    RunOnThreads(ranks, [&](Group& group) {
      const auto backend = MakeBackend("cpu");
      Clock clock;
      if (!group.first()) clock.slow = 10 * group.rank();
      TrainerHooks hooks = Hooks(clock);
      hooks.on_plan = {};
      steps[static_cast<size_t>(group.rank())] = MakeOn(*backend, run, hooks, &group).Run().step;
    });
    EXPECT_EQ(steps, std::vector<int64_t>(static_cast<size_t>(ranks), steps[0]));
    ExpectSameFiles("one/last", run + "/last");
  }
}

}  // namespace
}  // namespace folio
