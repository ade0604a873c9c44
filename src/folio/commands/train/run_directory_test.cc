#include "folio/run/run_directory.h"

#include <gtest/gtest.h>

#include "folio/commands/train/test_train.h"
#include "folio/io/model_dir.h"
#include "folio/train/run_log.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

using RunDirectory = TrainTest;

TEST_F(RunDirectory, ARunLeavesWhatIsPromised) {
  ASSERT_EQ(Train().status, 0);
  for (const char* part :
       {"config.toml", "metrics.jsonl", "loss.svg", "last/config.json", "last/model.safetensors",
        "last/tokenizer.json", "last/train_state/state.json", "best/model.safetensors"}) {
    EXPECT_TRUE(fs::exists(At("run") / part)) << part;
  }
  const std::vector<StepMetrics> lines = ReadRunLog(At("run"));
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_TRUE(lines.front().val_loss && lines.front().loss);
  EXPECT_TRUE(lines.back().val_loss && !lines.back().loss);
}

TEST_F(RunDirectory, ARunIsNotOverwrittenUnlessAsked) {
  ASSERT_EQ(Train().status, 0);
  const std::string before = ReadFile(At("run/metrics.jsonl"));
  const ProgramRun refused = Train();
  EXPECT_EQ(refused.status, 2);
  EXPECT_TRUE(Contains(refused.err, "already holds a run"));
  EXPECT_EQ(ReadFile(At("run/metrics.jsonl")), before);
  EXPECT_EQ(Train("--overwrite --seed 5").status, 0);
  EXPECT_NE(ReadFile(At("run/metrics.jsonl")), before);
}

TEST_F(RunDirectory, OneThatEndedBeforeItsFirstCheckpointIsAdvisedOneWay) {
  ASSERT_EQ(Train().status, 0);
  fs::remove_all(At("run/last"));
  fs::remove_all(At("run/best"));
  const ProgramRun again = Train(), resumed = RunFolio(Resumed("--max-steps 6"));
  EXPECT_EQ(again.status, 2);
  EXPECT_TRUE(Contains(again.err, "before its first checkpoint", "--overwrite")) << again.err;
  EXPECT_FALSE(Contains(again.err, "--resume")) << again.err;
  EXPECT_EQ(resumed.status, 3);
  EXPECT_TRUE(Contains(resumed.err, "before its first checkpoint", "--overwrite")) << resumed.err;
  EXPECT_FALSE(Contains(resumed.err, "leave out")) << resumed.err;
  EXPECT_EQ(Train("--overwrite").status, 0);
}

TEST_F(RunDirectory, WhatDoesNotBeginLeavesNothingBehind) {
  WriteFileAtomically(At("short.txt"), "abc");
  EXPECT_EQ(Train("--data " + At("short.txt").string()).status, 3);
  EXPECT_FALSE(fs::exists(At("run")));
  EXPECT_EQ(Train("--data " + At("none.txt").string()).status, 3);
  EXPECT_FALSE(fs::exists(At("run")));
}

TEST_F(RunDirectory, AReplacementThatDoesNotBeginLeavesTheOldRun) {
  ASSERT_EQ(Train().status, 0);
  const std::string before = ReadFile(At("run/metrics.jsonl"));
  EXPECT_EQ(Train("--overwrite --data " + At("none.txt").string()).status, 3);
  EXPECT_EQ(ReadFile(At("run/metrics.jsonl")), before);
  EXPECT_TRUE(fs::exists(At("run/last/model.safetensors")));
  EXPECT_FALSE(fs::exists(At("run/.replaced")));
}

TEST_F(RunDirectory, ResumeGoesOnWithTheRunsOwnSettings) {
  ASSERT_EQ(Train().status, 0);
  const ProgramRun resumed = RunFolio(Resumed("--max-steps 6"));
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(ReadRunLog(At("run")).size(), 7u);
}

TEST_F(RunDirectory, GenerateTakesTheBestCheckpointOfARun) {
  ASSERT_EQ(Train().status, 0);
  EXPECT_EQ(FindModelDir(At("run")), At("run/best"));
  const std::string words =
      "generate --prompt 'a small' --max-tokens 30 --seed 3 --model " + At("run").string();
  const ProgramRun one = RunFolio(words), again = RunFolio(words);
  EXPECT_EQ(one.status, 0) << one.err;
  EXPECT_EQ(one.out, again.out);
  EXPECT_EQ(one.out.substr(0, 7), "a small");
}

TEST_F(RunDirectory, APromptOfUnknownCharactersNamesTheFirst) {
  ASSERT_EQ(Train().status, 0);
  ExpectError(3, "generate --prompt 'a Ж' --model " + At("run").string(), "'Ж' (U+0416)");
}

}  // namespace
}  // namespace folio
