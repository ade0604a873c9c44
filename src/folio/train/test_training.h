#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/thread_pool.h"
#include "folio/data/dataset.h"
#include "folio/data/test_tokens.h"
#include "folio/model/test_models.h"
#include "folio/train/trainer.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {

// Data sets for the tests of this room.
// Writes train.bin and val.bin into `dir`, which is made, and opens them.
inline std::unique_ptr<Dataset> MakeDataset(const std::filesystem::path& dir,
                                            std::span<const int32_t> train,
                                            std::span<const int32_t> val, int64_t vocab_size) {
  CreateDirectories(dir);
  for (const auto& [name, tokens] : {std::pair{kTrainFile, train}, std::pair{kValFile, val}}) {
    WriteTokens(dir / name, TokenWidth::k16, tokens);
  }
  return std::make_unique<Dataset>(dir.string(), vocab_size);
}

// Whole runs of a tiny model, in a directory of their own.
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
    config_.dtype = "fp32";
  }
  ~Training() override { SetThreads(threads_); }
  void SetUp() override { data_ = MakeData("data", 400, 93); }

  std::unique_ptr<Dataset> MakeData(const char* name, int64_t train, int64_t val) {
    return MakeDataset(At(name), RandomTokens(train, model_.vocab_size, 1),
                       RandomTokens(val, model_.vocab_size, 2), model_.vocab_size);
  }
  Trainer Make(const std::string& run, TrainerHooks hooks = {},
               const Tokenizer* tokenizer = nullptr) {
    return MakeOn(*backend_, run, std::move(hooks), nullptr, tokenizer);
  }
  Trainer MakeOn(Backend& backend, const std::string& run, TrainerHooks hooks, Group* group,
                 const Tokenizer* tokenizer = nullptr, const StoredModel* from = nullptr) {
    std::filesystem::create_directories(At(run));
    return Trainer(backend, model_, config_, *data_, At(run), std::move(hooks), tokenizer, from,
                   group);
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

  // Why a run is refused, or cannot go on.
  std::string RunRefusal(ErrorKind kind = ErrorKind::kUsage) {
    return ErrorOf([&] { Run("run"); }, kind);
  }
  std::string ResumeRefusal(const std::string& run) {
    return ErrorOf([&] { Resume(run); }, ErrorKind::kInput);
  }

  std::map<std::string, std::string> Files(const std::string& dir) const {
    auto files = FilesBelow(At(dir));
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

}  // namespace folio
