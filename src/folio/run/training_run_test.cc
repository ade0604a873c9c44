#include "folio/run/training_run.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/corpus/prepare.h"
#include "folio/io/model_dir.h"
#include "folio/run/preview.h"
#include "folio/run/run_config.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

class TrainingRunHooks : public InTemporaryDirectory {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 400; ++i) text += "line " + std::to_string(i * 7 % 100) + " of a text.\n";
    PutFile("text.txt", text);
    settings_.UsePreset("debug");
    settings_.Set("train.max_steps", "20");
    settings_.Set("train.eval_every", "10");
    settings_.Set("log.sample_every", "10");
    settings_.Set("log.sample_tokens", "5");
    settings_.Set("log.sample_prompt", "line");
  }

  TrainingRunOptions Options() {
    return {.data = {At("text.txt").string()},
            .out = At("run"),
            .on_note = [this](const std::string& note) { notes_ += note + "\n"; },
            .prepare =
                [this](const PrepareOptions& texts) {
                  prepared_.push_back(texts.out);
                  PrepareDataset(texts);
                }};
  }

  RunSettings settings_;
  std::string notes_;
  std::vector<std::string> prepared_;
};

TEST_F(TrainingRunHooks, AreCalledWhenTheySay) {
  std::vector<int64_t> begun, steps, evaluations, samples, checkpoints;
  std::string prompt;
  int64_t batches = 0;
  const RunHooks hooks = {
      .on_begin = [&](int64_t step) { begun.push_back(step); },
      .on_step = [&](const StepMetrics& m) { steps.push_back(m.step); },
      .on_evaluation_progress = [&](int64_t done, int64_t total) { batches = done * 10 / total; },
      .on_evaluation = [&](int64_t step, const Evaluation&) { evaluations.push_back(step); },
      .on_sample =
          [&](int64_t step, const std::string& asked, const std::string& text) {
            samples.push_back(step);
            prompt = asked;
            EXPECT_FALSE(text.empty());
          },
      .on_checkpoint =
          [&](int64_t step, const std::filesystem::path& path) {
            checkpoints.push_back(step);
            EXPECT_EQ(path, At("run") / kLastDir);
          }};
  {
    TrainingRun run(settings_, Options());
    EXPECT_EQ(prepared_.size(), 1u);
    EXPECT_TRUE(run.has_tokenizer());
    EXPECT_TRUE(Contains(run.preview().Plan(), "parameters", "training tokens"));
    run.Train(hooks);
  }
  EXPECT_EQ(begun, std::vector<int64_t>{0});
  EXPECT_EQ(steps.size(), 20u);
  EXPECT_EQ(evaluations, (std::vector<int64_t>{0, 10, 20}));
  EXPECT_EQ(samples, (std::vector<int64_t>{10, 20}));
  EXPECT_EQ(prompt, "line");
  EXPECT_EQ(batches, 10);
  EXPECT_EQ(checkpoints.back(), 20);

  // A run that is complete does not begin again, and its text is not prepared again.
  TrainingRunOptions resumed = Options();
  resumed.data = {};
  resumed.resume = true;
  RunSettings none;
  EXPECT_EQ(TrainingRun(none, resumed).Train(hooks).step, 20);
  EXPECT_EQ(begun.size(), 1u);
  EXPECT_EQ(prepared_.size(), 1u);
}

TEST_F(TrainingRunHooks, NotesNameWhatWasChosen) {
  RunSettings automatic;
  automatic.Set("train.max_steps", "4");
  TrainingRunOptions options = Options();
  options.budget_seconds = 1;
  const TrainingRun run(automatic, options);
  EXPECT_TRUE(Contains(notes_, "automatic settings: characters")) << notes_;
}

TEST_F(TrainingRunHooks, AnErrorWhilePreparingLeavesNoRun) {
  TrainingRunOptions options = Options();
  options.prepare = [](const PrepareOptions&) { throw InputError("stopped here"); };
  EXPECT_TRUE(Contains(ErrorOf([&] { TrainingRun(settings_, options); }), "stopped here"));
  EXPECT_FALSE(std::filesystem::exists(At("run")));
}

}  // namespace
}  // namespace folio
