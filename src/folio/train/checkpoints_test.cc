#include "folio/train/checkpoints.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <optional>
#include <set>

#include "folio/io/checksums.h"
#include "folio/io/file.h"
#include "folio/io/safetensors.h"
#include "folio/train/buckets.h"
#include "folio/train/test_training.h"
#include "tests/kit/expect.h"
#include "tests/kit/full_disk.h"
#include "tests/kit/thread_ranks.h"
#include "tests/kit/warnings.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

class KeptCheckpoints : public Training {
 protected:
  KeptCheckpoints() {
    config_.eval_every = 0;
    config_.checkpoint_every = 2;
  }

  Strings Kept(const std::string& run) const {
    Strings names;
    if (!fs::exists(At(run) / kStepsDir)) return names;
    for (const auto& entry : fs::directory_iterator(At(run) / kStepsDir)) {
      names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }
  void Damage(const std::string& file) const {
    std::fstream bytes(At(file), std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(-5, std::ios::end);
    bytes.put('\x7f');
    ASSERT_TRUE(bytes.good()) << file;
  }
  // Calls `at` with the number of steps done after each of them.
  TrainResult RunWith(const std::string& run, const std::function<void(int64_t done)>& at) {
    TrainerHooks hooks;
    hooks.on_step = [&](const StepMetrics& m) { at(m.step + 1); };
    hooks.on_checkpoint = [&](int64_t step, const fs::path&) {
      saved_.insert(step);
      if (step == full_after_) full_.emplace(100);
    };
    return Make(run, hooks).Run();
  }
  // Calls `meddle` when the checkpoint of step 10 is there, and none is being written.
  TrainResult RunAndMeddle(const std::function<void()>& meddle) {
    fs::remove_all(At("run"));
    warnings_.Take();
    TrainerHooks hooks;
    hooks.on_checkpoint = [&](int64_t step, const fs::path&) {
      if (step == 10) meddle();
    };
    return Make("run", hooks).Run();
  }
  Warnings warnings_;
  std::set<int64_t> saved_;
  int64_t full_after_ = -1;  // the checkpoint of this step
  std::optional<FullDisk> full_;
};

TEST_F(KeptCheckpoints, AreTheNewestAndThoseOfRoundNumbers) {
  config_.keep_last = 3;
  config_.keep_every = 7;  // with a checkpoint of its own: 2 does not divide it
  Run("run");
  EXPECT_EQ(Kept("run"), (Strings{"14", "16", "18", "7"}));
  RunUntil("short", 16);
  ExpectSameFiles("short/last", "run/steps/16");
  for (const fs::path& checkpoint : FindCheckpoints(At("run"))) {
    EXPECT_TRUE(VerifyChecksums(checkpoint)) << checkpoint;
  }
  config_.max_steps = 24;
  Resume("run");
  EXPECT_EQ(Kept("run"), (Strings{"14", "21", "22", "7"}));
}

TEST_F(KeptCheckpoints, OneIsEnoughForThoseWhoSaySo) {
  config_.keep_last = 1;
  Run("run");
  EXPECT_FALSE(fs::exists(At("run") / kStepsDir));
  EXPECT_TRUE(VerifyChecksums(At("run/last")));
  EXPECT_TRUE(VerifyChecksums(At("run/best")));
}

TEST_F(KeptCheckpoints, ADamagedNewestFallsBackToTheOneBefore) {
  Run("straight");
  for (const std::string& file :
       Strings{"model.safetensors", "train_state/optimizer.safetensors", "train_state/state.json",
               "config.json", "SHA256SUMS", ""}) {
    RunUntil("run", 12);
    warnings_.Take();
    if (file.empty()) {
      fs::remove_all(At("run/last"));
    } else {
      Damage("run/last/" + file);
    }
    Trainer trainer = Make("run");
    trainer.Resume();
    EXPECT_EQ(trainer.step(), 10) << file;
    if (!file.empty()) {
      EXPECT_TRUE(Contains(warnings_.text(), file, "; resuming from", "run/steps/10 (step 10)"));
    }
    trainer.Run();
    ExpectSameFiles("straight/last", "run/last");
    EXPECT_EQ(Kept("run"), Kept("straight"));
    EXPECT_EQ(LoggedSteps("run"), UpTo(20));
    fs::remove_all(At("run"));
  }
}

TEST_F(KeptCheckpoints, WhereAllAreDamagedTheNewestIsNamed) {
  Run("run");
  Damage("run/last/model.safetensors");
  Damage("run/steps/18/train_state/optimizer.safetensors");
  EXPECT_TRUE(Contains(ErrorOf([&] { Resume("run"); }), "run/last/model.safetensors is damaged"));
}

TEST_F(KeptCheckpoints, ABestThatIsDamagedOrGoneIsMadeAgainOfItsStep) {
  config_.eval_every = 4;
  config_.keep_last = 3;
  Run("straight");
  RunUntil("short", 6);
  for (const bool gone : {false, true}) {
    fs::remove_all(At("run"));
    const TrainResult before = RunUntil("run", 6);
    ASSERT_EQ(before.best_step, 4);
    if (gone) {
      fs::remove_all(At("run/best"));
    } else {
      fs::remove(At("run/best/config.json"));
    }
    warnings_.Take();
    Trainer trainer = Make("run");
    trainer.Resume();
    EXPECT_TRUE(Contains(warnings_.text(), "restored ", "steps/4")) << warnings_.text();
    ExpectSameFiles("short/best", "run/best");
    EXPECT_TRUE(VerifyChecksums(At("run/best")));
    EXPECT_EQ(trainer.Run().best_step, before.best_step);
    ExpectSameFiles("straight/last", "run/last");
  }
}

// best/ and the checkpoint of its step are the same files under two names.
TEST_F(KeptCheckpoints, WhereTheBestIsLostTheNextEvaluationWritesIt) {
  config_.eval_every = 4;
  config_.keep_last = 3;
  RunUntil("run", 6);
  ASSERT_TRUE(
      fs::equivalent(At("run/steps/4/model.safetensors"), At("run/best/model.safetensors")));
  Damage("run/best/model.safetensors");
  warnings_.Take();
  const TrainResult result = Resume("run");
  EXPECT_TRUE(Contains(warnings_.text(), "run/best/model.safetensors is damaged",
                       "steps/4/model.safetensors is damaged", "; the next evaluation will write"))
      << warnings_.text();
  EXPECT_GE(result.best_step, 8);
  EXPECT_TRUE(VerifyChecksums(At("run/best")));
}

TEST_F(KeptCheckpoints, ListsOfChecksumsThatAreGoneOrCutShortAreDamage) {
  config_.eval_every = 10;
  RunUntil("straight", 12);
  const auto sums = [&](const std::string& dir) { return At("run") / dir / kChecksumsFile; };
  const std::string whole = ReadFile(At("straight/last") / kChecksumsFile);
  const std::string cut = whole.substr(0, whole.find('\n') + 1);
  for (const std::string* list : {static_cast<const std::string*>(nullptr), &cut}) {
    fs::remove_all(At("run"));
    RunUntil("run", 12);
    warnings_.Take();
    for (const char* dir : {"last", "best"}) {
      fs::remove(sums(dir));
      if (list != nullptr) WriteFileAtomically(sums(dir), *list);
    }
    Trainer trainer = Make("run");
    trainer.Resume();
    EXPECT_EQ(trainer.step(), 10);
    EXPECT_TRUE(Contains(warnings_.text(),
                         list == nullptr ? "SHA256SUMS is missing" : "no line for", "run/best"))
        << warnings_.text();
    EXPECT_TRUE(VerifyChecksums(At("run/best")));
  }
}

// As an earlier folio left it.
TEST_F(KeptCheckpoints, OneWithoutChecksumsIsTaken) {
  Run("straight");
  RunUntil("run", 12);
  fs::remove(At("run/last") / kChecksumsFile);
  const std::string config = ReadFile(At("run/last/config.json"));
  WriteFileAtomically(At("run/last/config.json"),
                      Replaced(config, R"("checksums": "SHA256SUMS")", R"("no": "such")"));
  fs::remove_all(At("run") / kStepsDir);
  Resume("run");
  ExpectSameFiles("straight/last", "run/last");
}

TEST_F(KeptCheckpoints, AFullDiskIsWarnedOfAndTrainingGoesOn) {
  Run("straight");
  warnings_.Take();
  full_after_ = 4;
  RunWith("run", [this](int64_t done) {
    if (done == 11) full_.reset();
  });
  EXPECT_TRUE(Contains(warnings_.text(), "checkpoint of step 6 failed:",
                       "checkpoint of step 8 failed:", "File too large", "training continues",
                       "metrics.jsonl"));
  EXPECT_FALSE(saved_.contains(6) || saved_.contains(8));
  EXPECT_TRUE(saved_.contains(4) && saved_.contains(12) && saved_.contains(20));
  ExpectSameFiles("straight/last", "run/last");
  ExpectSameFiles("straight/best", "run/best");
  EXPECT_EQ(LoggedSteps("run"), UpTo(20));
}

TEST_F(KeptCheckpoints, ADiskThatStaysFullLeavesTheLastOneAndSaysSo) {
  RunUntil("short", 4);
  full_after_ = 4;
  const std::string error = ErrorOf([&] { RunWith("run", [](int64_t) {}); }, ErrorKind::kRuntime);
  full_.reset();
  EXPECT_TRUE(
      Contains(error, "could not write the checkpoint of step 20", "run/last contains step 4"))
      << error;
  ExpectSameFiles("short/last", "run/last");
  config_.checkpoint_every = 0;
  EXPECT_EQ(Resume("run").step, 20);
}

TEST_F(KeptCheckpoints, ADirectoryThatComesBackIsWrittenAgain) {
  Run("straight");
  warnings_.Take();
  RunWith("run", [this](int64_t done) {
    if (done == 7) fs::rename(At("run"), At("elsewhere"));
    if (done == 13) fs::rename(At("elsewhere"), At("run"));
  });
  EXPECT_TRUE(
      Contains(warnings_.text(), "checkpoint of step 8 failed:", "checkpoint of step 10 failed:"));
  ExpectSameFiles("straight/last", "run/last");
  EXPECT_EQ(LoggedSteps("run"), UpTo(20));
}

// Somebody takes away what a running training has written.
TEST_F(KeptCheckpoints, WhatIsRemovedWhileTrainingGoesOnIsMadeAgain) {
  config_.eval_every = 4;
  config_.keep_last = 5;  // that of the best step among them
  Run("straight");
  for (const char* part : {"last", "steps", "best"}) {
    RunAndMeddle([&] { fs::remove_all(At("run") / part); });
    ExpectSameFiles("straight/last", "run/last");
    EXPECT_TRUE(VerifyChecksums(At("run/best"))) << part;
    EXPECT_EQ(Kept("run"), (Strings{"12", "14", "16", "18"})) << part;
    EXPECT_FALSE(Contains(warnings_.text(), " failed: ")) << warnings_.text();
    if (part == std::string("last")) {
      EXPECT_TRUE(Contains(warnings_.text(), "run/last was removed",
                           "was removed: the checkpoint of step 10 is lost"));
    } else if (part == std::string("best")) {
      EXPECT_TRUE(Contains(warnings_.text(), "; restored ", "run/best from "));
    }
  }
  // Where no checkpoint of its step is left, it is that of the next evaluation.
  config_.keep_last = 1;
  RunAndMeddle([&] { fs::remove_all(At("run/best")); });
  EXPECT_TRUE(VerifyChecksums(At("run/best")));
  EXPECT_TRUE(Contains(warnings_.text(), "; the next evaluation will write"));
}

TEST_F(KeptCheckpoints, ARunThatIsRemovedEndsWithAnError) {
  const std::string error =
      ErrorOf([this] { RunAndMeddle([this] { fs::remove_all(At("run")); }); }, ErrorKind::kRuntime);
  EXPECT_TRUE(
      Contains(error, "could not write the checkpoint of step 20", "cannot write", "No such file"));
  EXPECT_TRUE(Contains(warnings_.text(), "checkpoint of step 12 failed:"));
}

TEST_F(KeptCheckpoints, ALinkInTheirPlaceIsReplacedAndNotFollowed) {
  config_.eval_every = 4;
  config_.keep_last = 3;
  Run("straight");
  for (const char* part : {"last", "steps", "best"}) {
    fs::remove_all(At("outside"));
    std::map<std::string, std::string> before;
    RunAndMeddle([&] {
      fs::rename(At("run") / part, At("outside"));
      before = FilesBelow(At("outside"));
      fs::create_directory_symlink(At("outside"), At("run") / part);
    });
    EXPECT_FALSE(before.empty());
    EXPECT_EQ(FilesBelow(At("outside")), before) << part;
    ExpectSameFiles("straight/last", "run/last");
    EXPECT_FALSE(fs::is_symlink(At("run/last")));
    EXPECT_FALSE(fs::is_symlink(At("run/steps")));
  }
}

// Ranks write their pieces of the optimizer's state into one file, or the first gathers them.
TEST_F(KeptCheckpoints, OfRanksAreTheSameHoweverTheyComeTogether) {
  model_.n_embd = 96;  // so that every rank has pieces
  const GptWeights weights(model_);
  const ParamTable& table = weights.table();
  const auto save = [&](const std::string& run, int ranks, bool same_files) {
    fs::create_directories(At(run));
    const Shards shards(BucketsOf(table), ranks);
    RunOnThreads(ranks, [&](Group& group) {
      Optimizer optimizer(*MakeBackend("cpu"), {}, Dtype::kF32, shards, group.rank());
      for (size_t b = 0; b < shards.buckets().size(); ++b) {
        const Shards::Piece piece = shards.PieceOf(b, group.rank());
        for (int64_t i = 0; i < piece.size(); ++i) {
          const auto value = static_cast<float>(piece.begin + i);
          optimizer.State()[0].tensor.data<float>()[piece.offset + i] = value;
          optimizer.State()[1].tensor.data<float>()[piece.offset + i] = -value;
        }
      }
      CheckpointWriter writer(Checkpoints(At(run), {}), weights, optimizer, {&group, same_files});
      writer.Begin({.step = 3}, true, true, -1);
      const auto written = writer.Wait();
      ASSERT_TRUE(written);
      EXPECT_FALSE(written->error);
    });
    EXPECT_FALSE(fs::exists(At(run) / kMomentsFile));
  };
  save("pieces", 3, true);
  save("gathered", 3, false);
  ExpectSameFiles("pieces", "gathered");
  const SafetensorsFile file(At("pieces/last/train_state/optimizer.safetensors"));
  for (const ParamInfo& info : table.params()) {
    const auto first = static_cast<float>(info.offset);
    const auto last = static_cast<float>(info.offset + info.shape.count() - 1);
    const std::vector<float> m = file.ReadAs<float>("m." + info.name);
    const std::vector<float> v = file.ReadAs<float>("v." + info.name);
    EXPECT_EQ(m.front(), first) << info.name;
    EXPECT_EQ(m.back(), last) << info.name;
    EXPECT_EQ(v.front(), -first) << info.name;
    EXPECT_EQ(v.back(), -last) << info.name;
  }
}

TEST_F(KeptCheckpoints, AreTheSameWhereNoCopyIsTaken) {
  const GptWeights weights(model_);
  const Optimizer optimizer(*backend_, {}, Dtype::kF32, Shards(BucketsOf(weights.table()), 1));
  for (const bool beside : {true, false}) {
    const std::string run = beside ? "beside" : "alone";
    fs::create_directories(At(run));
    CheckpointWriter writer(Checkpoints(At(run), {}), weights, optimizer, {}, beside);
    EXPECT_FALSE(writer.Wait());
    writer.Begin({.step = 3}, true, true, -1);
    const auto written = writer.Wait();
    ASSERT_TRUE(written);
    EXPECT_FALSE(written->error);
    EXPECT_EQ(written->step, 3);
    EXPECT_FALSE(writer.busy());
    fs::remove_all(At(run));
    writer.Begin({.step = 4}, false, true, 3);
    EXPECT_TRUE(writer.Wait()->error) << "its directory is gone";
    fs::create_directories(At(run));
    writer.Begin({.step = 5}, true, true, -1);
    EXPECT_FALSE(writer.Wait()->error);
  }
  ExpectSameFiles("beside", "alone");
}

}  // namespace
}  // namespace folio
