// A short torture with a fixed seed: a few trials of each kind. `make torture` makes all of them.
#include "tests/torture/torture.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <random>

#include "tests/kit/paths.h"
#include "tests/kit/sanitized.h"

namespace folio::torture {
namespace {

namespace fs = std::filesystem;

class TortureTest : public testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "the sanitizers stand between a program and the C library";
    const char* layer = std::getenv("FOLIO_LAYER");
    if (layer == nullptr) GTEST_SKIP() << "FOLIO_LAYER names no libfolio_faults.so";
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    const fs::path memory = "/dev/shm";
    const fs::path place = access(memory.c_str(), W_OK) == 0 ? memory : fs::temp_directory_path();
    directory_ = place / (std::string("folio-") + test->name() + std::to_string(getpid()));
    torture_.emplace(ProgramPath(), layer, directory_);
    if (!torture_->Reaches()) GTEST_SKIP() << "nothing can be preloaded into the program";
  }
  ~TortureTest() override { fs::remove_all(directory_); }

  // `count` of these, other ones for each seed.
  static std::vector<std::string> Some(std::vector<std::string> trials, size_t count,
                                       uint64_t seed) {
    std::mt19937_64 random(seed);
    std::ranges::shuffle(trials, random);
    trials.resize(std::min(trials.size(), count));
    return trials;
  }
  void Survives(const std::vector<std::string>& trials) {
    for (const std::string& trial : trials) {
      EXPECT_EQ(torture_->Try(trial, 0), "") << "folio_torture --only '" << trial << "'";
    }
  }

  fs::path directory_;
  std::optional<Torture> torture_;
};

TEST_F(TortureTest, RunsGoOnAfterAKillAtAnyCall) {
  torture_->Prepare({"train", "resume", "overwrite"});
  for (const std::string workload : {"train", "resume", "overwrite"}) {
    for (uint64_t part = 1; part <= 7; ++part) {
      const uint64_t call = torture_->Calls(workload) * part / 7;
      Survives({workload + "/fault/any:" + std::to_string(call) + ":kill"});
    }
  }
  EXPECT_EQ(torture_->figures().faults, 21);
}

TEST_F(TortureTest, RunsGoOnWhenFilesFail) {
  torture_->Prepare({"train"});
  const char* const rules[] = {":EIO", "+:ENOSPC", "+:EROFS", "+:EDQUOT"};
  for (uint64_t part = 1; part <= 12; ++part) {
    const uint64_t call = torture_->Calls("train") * part / 12;
    Survives({"train/fault/any:" + std::to_string(call) + rules[part % std::size(rules)]});
  }
  Survives({"train/fault/write:1+:short", "train/fault/sync:1+:EIO", "train/fault/space:40000"});
  EXPECT_GT(torture_->figures().faults, 15);
}

TEST_F(TortureTest, WhatIsWrittenIsWholeWhenFilesFail) {
  torture_->Prepare({"prepare-over", "stories", "convert-hf"});
  for (const char* workload : {"prepare-over", "stories", "convert-hf"}) {
    Survives(Some(torture_->Faults(workload), 10, 1));
  }
  EXPECT_GT(torture_->figures().faults, 0);
}

TEST_F(TortureTest, WhatIsWrittenIsWholeAfterAPowerCut) {
  torture_->Prepare({"prepare-over", "stories", "tokenizer-over"});
  for (const char* workload : {"prepare-over", "stories", "tokenizer-over"}) {
    Survives(Some(torture_->Cuts(workload, 2), 12, 1));
  }
  EXPECT_GT(torture_->figures().cuts, 0);
}

TEST_F(TortureTest, WhatWasWrittenIsThereAfterAPowerCut) {
  const std::vector<std::string> writers = {"prepare", "tokenizer-over", "stories", "encode",
                                            "plot"};
  torture_->Prepare(writers);
  for (const std::string& writer : writers) {
    Survives({writer + "/cut/" + std::to_string(torture_->Changes(writer)) + "/nothing/0"});
  }
}

}  // namespace
}  // namespace folio::torture
