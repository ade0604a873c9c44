#include "folio/run/data_check.h"

#include <gtest/gtest.h>

#include <fstream>

#include "folio/corpus/prepare.h"
#include "folio/io/file.h"
#include "folio/run/run_directory.h"
#include "folio/run/training_run.h"
#include "folio/train/train_state.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/warnings.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// Runs of the smallest preset on data that was prepared before.
class DataChecks : public InTemporaryDirectory {
 protected:
  DataChecks() {
    std::string text;
    for (int i = 0; i < 3000; ++i) text += static_cast<char>('a' + i * i % 23);
    WriteFileAtomically(At("text.txt"), text);
    PrepareDataset({.files = {At("text.txt").string()}, .out = At("data").string()});
  }
  // Another token of the vocabulary in the place of one.
  void Damage(const std::string& file) const {
    std::fstream stream(At("data") / file, std::ios::in | std::ios::out | std::ios::binary);
    const int byte = stream.seekg(40).get();
    stream.seekp(40).put(static_cast<char>(byte == 3 ? 4 : 3));
  }
  // Calls `begun` with what has been told. It may damage data, too.
  void Train(int64_t at_once, const std::string& steps = "40",
             const std::function<void(const StepMetrics&)>& on_step = {},
             const std::function<bool()>& stop = {}) const {
    RunSettings settings;
    settings.UsePreset("debug");
    settings.Set("train.max_steps", steps);
    settings.Set("train.checkpoint_every", "5");
    settings.Set("train.eval_every", "0");
    settings.Set("train.threads", "1");
    TrainingRun run(settings,
                    {.data = {At("data").string()}, .out = At("run"), .hashed_at_once = at_once});
    run.Train({.on_step = on_step, .stop_requested = stop});
  }

  Warnings told_;
};

TEST_F(DataChecks, SmallDataIsCheckedBeforeARunBegins) {
  Train(TrainingRunOptions{}.hashed_at_once, "2");
  fs::remove_all(At("run"));
  for (const char* file : {"train.bin", "val.bin"}) {
    Damage(file);
    EXPECT_TRUE(Contains(ErrorAndHelp([&] { Train(TrainingRunOptions{}.hashed_at_once); }),
                         std::string(file) + ": not the tokens that were prepared",
                         "dataset.json says they hash to", "prepare the data again"));
    EXPECT_FALSE(fs::exists(At("run")));
    PrepareDataset(
        {.files = {At("text.txt").string()}, .out = At("data").string(), .overwrite = true});
  }
  // Tokens of others have no hashes.
  fs::remove(At("data/dataset.json"));
  Damage("train.bin");
  Train(TrainingRunOptions{}.hashed_at_once, "2");
}

TEST_F(DataChecks, LargeDataIsCheckedBesideTraining) {
  Train(0, "20");
  EXPECT_TRUE(Contains(told_.Take(), "data: the tokens are those that were prepared"));
  fs::remove_all(At("run"));
  Damage("val.bin");
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { Train(0, "20000"); }),
                       "val.bin: not the tokens that were prepared",
                       "begin the run again with "
                       "--overwrite"));
  EXPECT_TRUE(fs::exists(At("run/metrics.jsonl")));
  fs::remove_all(At("run"));
  // The last checkpoint waits for it, however soon it comes.
  Damage("val.bin");
  EXPECT_TRUE(Contains(ErrorOf([&] { Train(0, "1"); }), "not the tokens that were prepared"));
  EXPECT_FALSE(fs::exists(At("run/last")));
}

TEST_F(DataChecks, AreNotWaitedForWhereARunIsStopped) {
  DataCheck check(At("data").string());
  check.Wait([] { return true; });
  Damage("train.bin");
  DataCheck damaged(At("data").string());
  EXPECT_TRUE(Contains(ErrorOf([&] { damaged.Wait([] { return false; }); }), "train.bin: not"));
  damaged.Look();  // once
}

// Not only every half a minute.
TEST_F(DataChecks, ChangedDataIsLookedForAtCheckpointsAndAtTheEnd) {
  std::string at_checkpoint;
  const auto change = [&](const StepMetrics& m) {
    if (m.step == 2) Damage("train.bin");
    if (m.step == 39) at_checkpoint = told_.text();
  };
  Train(TrainingRunOptions{}.hashed_at_once, "40", change);
  EXPECT_EQ(Count(told_.Take(), "train.bin was changed while the run trains on it"), 1u);
  EXPECT_TRUE(Contains(at_checkpoint, "train.bin was changed"));
  fs::remove_all(At("run"));
  PrepareDataset(
      {.files = {At("text.txt").string()}, .out = At("data").string(), .overwrite = true});
  const auto time = fs::last_write_time(At("data/train.bin"));
  const auto unseen = [&](const StepMetrics& m) {
    if (m.step != 2) return;
    Damage("train.bin");
    fs::last_write_time(At("data/train.bin"), time);
  };
  Train(TrainingRunOptions{}.hashed_at_once, "40", unseen);
  EXPECT_TRUE(Contains(told_.Take(), "were changed while the run trained on them"));
}

}  // namespace
}  // namespace folio
