#include "folio/api/batch_trainer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/data/batch_sampler.h"
#include "folio/data/dataset.h"
#include "folio/io/file.h"
#include "folio/run/run_directory.h"
#include "folio/run/training_run.h"
#include "folio/train/run_batches.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

// A run of 20 steps on a text, and what a BatchTrainer needs to make the same steps.
class BatchTraining : public InTemporaryDirectory {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 400; ++i) text += "line " + std::to_string(i * 7 % 100) + " of a text.\n";
    PutFile("text.txt", text);
    Choose(settings_);
    TrainingRun(settings_, {.data = {At("text.txt").string()}, .out = At("run")}).Train();
    data_.emplace((At("run") / kRunDataDir).string());
  }

  static void Choose(RunSettings& settings) {
    settings.UsePreset("debug");
    settings.Set("train.max_steps", "20");
    settings.Set("train.grad_accumulation", "2");
    settings.Set("model.resid_pdrop", "0.1");
  }

  // Makes the steps of the run from `first` on.
  void Train(BatchTrainer& trainer, int64_t first, int64_t end) {
    TrainConfig config = settings_.config.train;
    config.context = trainer.T();
    RunBatches batches(*data_, config);
    for (int64_t step = first; step < end; ++step) {
      std::vector<int32_t> inputs, targets;
      for (int64_t micro = 0; micro < 2; ++micro) {
        batches.Fetch({.step = step}, micro);
        const Batch& batch = batches.batch();
        inputs.insert(inputs.end(), batch.inputs.begin(), batch.inputs.end());
        targets.insert(targets.end(), batch.targets.begin(), batch.targets.end());
      }
      // A step that is given up after some operations is as if it had not begun.
      int operations = 0;
      const auto stop = [&] { return ++operations > 7; };
      if (step % 3 == 1) {
        EXPECT_THROW(trainer.Step(inputs, targets, stop), CallStopped);
      }
      EXPECT_EQ(trainer.step(), step);
      trainer.Step(inputs, targets);
    }
  }

  std::unique_ptr<BatchTrainer> New() {
    own_ = std::make_unique<RunSettings>();
    Choose(*own_);
    own_->Set("model.vocab_size", std::to_string(settings_.config.model.vocab_size));
    return std::make_unique<BatchTrainer>(*own_);
  }

  std::string Weights(const std::string& dir) { return ReadFile(At(dir) / "model.safetensors"); }

  RunSettings settings_;
  std::unique_ptr<RunSettings> own_;
  std::optional<Dataset> data_;
};

TEST_F(BatchTraining, LeavesTheBytesOfARunOnItsBatches) {
  const auto whole = New();
  Train(*whole, 0, 20);
  whole->Save(At("whole"));
  EXPECT_EQ(Weights("whole"), Weights("run/last"));

  const auto first = New();
  Train(*first, 0, 9);
  first->Save(At("first"));
  const auto second = New();
  second->Resume(At("first"));
  Train(*second, 9, 20);
  second->Save(At("second"));
  for (const char* name : {"model.safetensors", "train_state/optimizer.safetensors"}) {
    EXPECT_EQ(ReadFile(At("second") / name), ReadFile(At("whole") / name)) << name;
  }
}

// All have as many parameters, and most of the same shapes.
TEST_F(BatchTraining, IsResumedWithItsOwnModelAlone) {
  const auto first = New();
  Train(*first, 0, 1);
  first->Save(At("first"));
  const std::vector<std::pair<const char*, const char*>> settings = {
      {"model.n_head", "1"},           {"model.layer_norm_epsilon", "1e-3"},
      {"model.norm_position", "post"}, {"model.activation_function", "relu"},
      {"model.causal", "false"},       {"model.scale_attn_weights", "false"},
      {"model.embedding_scale", "2"}};
  for (const auto& [key, value] : settings) {
    own_ = std::make_unique<RunSettings>();
    Choose(*own_);
    own_->Set("model.vocab_size", std::to_string(settings_.config.model.vocab_size));
    own_->Set(key, value);
    BatchTrainer other(*own_);
    const std::string before(reinterpret_cast<const char*>(other.weights().flat().raw()),
                             other.weights().flat().bytes());
    EXPECT_TRUE(Contains(ErrorAndHelp([&] { other.Resume(At("first")); }), "a different model",
                         std::string(key).substr(6) + " = "))
        << key;
    EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(other.weights().flat().raw()),
                               other.weights().flat().bytes()),
              before);
  }
  // Dropout and the first weights are a matter of training.
  own_ = std::make_unique<RunSettings>();
  Choose(*own_);
  own_->Set("model.vocab_size", std::to_string(settings_.config.model.vocab_size));
  own_->Set("model.attn_pdrop", "0.2");
  own_->Set("model.initializer_range", "0.1");
  BatchTrainer(*own_).Resume(At("first"));
}

TEST_F(BatchTraining, AdaptersAreResumedBesideTheirOwnModelAlone) {
  const auto begin = [&](const Model& base, RunSettings& settings) {
    settings.Set("lora.rank", "2");
    settings.Set("train.batch_size", "1");
    settings.Set("train.context", "7");
    return std::make_unique<BatchTrainer>(settings, &base);
  };
  const std::vector<int32_t> inputs = {1, 2, 3, 4, 5, 6, 7}, targets = {2, 3, 4, 5, 6, 7, 8};
  const auto plain = New();
  Train(*plain, 0, 2);
  plain->Save(At("other"));
  const Model base(At("run"), {.matrices = MatrixDtypeNamed("fp32")}),
      other(At("other"), {.matrices = MatrixDtypeNamed("fp32")});
  RunSettings mine, again, theirs;
  const auto trainer = begin(base, mine);
  trainer->Step(inputs, targets);
  trainer->Save(At("adapted"));
  begin(base, again)->Resume(At("adapted"));
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { begin(other, theirs)->Resume(At("adapted")); }),
                       "adapted", "adapters of another model"));
}

TEST_F(BatchTraining, ARunThatDropsAStepGoesOnAsIfItHadNot) {
  for (const bool resume : {false, true}) {
    RunSettings settings;
    Choose(settings);
    TrainingRun run(settings, {.data = resume ? std::vector<std::string>()
                                              : std::vector{At("text.txt").string()},
                               .out = At("dropped"),
                               .resume = resume});
    int64_t steps = 0, operations = 0;
    RunHooks hooks;
    hooks.on_step = [&](const StepMetrics& made) { steps = made.step + 1; };
    hooks.abandon_requested = [&] { return !resume && steps == 7 && ++operations > 9; };
    const TrainResult result = run.Train(hooks);
    EXPECT_EQ(result.step, resume ? 20 : 7);
    EXPECT_EQ(result.stopped, !resume);
  }
  EXPECT_EQ(Weights("dropped/last"), Weights("run/last"));
}

TEST_F(BatchTraining, AdaptersLeaveTheModelAsItWas) {
  const Model base(At("run"), {.matrices = MatrixDtypeNamed("fp32")});
  RunSettings settings;
  settings.Set("lora.rank", "2");
  settings.Set("train.learning_rate", "0.05");
  settings.Set("train.warmup_steps", "0");
  settings.Set("train.batch_size", "1");
  settings.Set("train.context", "7");
  BatchTrainer trainer(settings, &base);
  const std::vector<int32_t> inputs = {1, 2, 3, 4, 5, 6, 7}, targets = {2, 3, 4, 5, 6, 7, 8};
  const double before = trainer.Evaluate(inputs, targets);
  double scores = 0;
  for (const double score : base.Score(std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8}))
    scores += score;
  EXPECT_NEAR(before, -scores / 7, 1e-5);
  for (int i = 0; i < 20; ++i) trainer.Step(inputs, targets);
  EXPECT_LT(trainer.Evaluate(inputs, targets), before - 0.1);
  EXPECT_THROW(trainer.Gradient("transformer.wte.weight"), Error);
  trainer.Save(At("tuned"));
  const auto snapshot = trainer.Snapshot(nullptr);
  const Model opened(At("tuned"), {.matrices = MatrixDtypeNamed("fp32")});
  EXPECT_EQ(snapshot->Logits(inputs), opened.Logits(inputs));
  const Model again(At("run"), {.matrices = MatrixDtypeNamed("fp32")});
  EXPECT_EQ(again.Logits(inputs), base.Logits(inputs));
}

TEST_F(BatchTraining, WhatDoesNotFitIsRefused) {
  const auto refused = [](auto&& call, const char* says) {
    EXPECT_TRUE(Contains(ErrorOf(call, ErrorKind::kUsage), says));
  };
  const auto trainer = New();
  const std::vector<int32_t> few(3, 1);
  refused([&] { trainer->Step(few, few); }, "a batch of 3 inputs");
  refused([&] { trainer->Parameter("transformer.wte.weigth"); }, "transformer.wte.weigth");
  const Model run(At("run"));
  own_->Set("model.vocab_size", "5");
  BatchTrainer few_tokens(*own_);
  refused([&] { few_tokens.Save(At("saved"), &run.tokenizer()); }, "does not match the model");
  refused([&] { few_tokens.Snapshot(run.opened().tokenizer); }, "does not match the model");
  EXPECT_FALSE(std::filesystem::exists(At("saved")));
  RunSettings torch;
  torch.UsePreset("debug");
  torch.Set("train.rng", "torch");
  refused([&] { BatchTrainer refused_one(torch); }, "train.rng torch");
  const Model blocks(At("run"), {.matrices = MatrixDtypeNamed("bf16")});
  RunSettings more;
  refused([&] { BatchTrainer refused_one(more, &blocks); }, "bf16");
}

}  // namespace
}  // namespace folio
