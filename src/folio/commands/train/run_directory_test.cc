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

// A run without a tokenizer, and one with spaces in its name, say what to type next.
TEST_F(RunDirectory, TheCommandThatARunNamesWorks) {
  ASSERT_EQ(Train().status, 0);
  const fs::path data = At("run/data"), bare = At("bare");
  fs::create_directory(bare);
  fs::copy_file(data / "train.bin", bare / "train.bin");
  fs::copy_file(data / "val.bin", bare / "valid.bin");
  const std::string flags =
      " --batch 2 --max-steps 1 --no-config --set model.n_layer=1 model.n_head=1 model.n_embd=8"
      " model.n_positions=16 model.vocab_size=30 train.eval_batches=1";
  for (const char* from : {"bare", "text.txt"}) {
    const ProgramRun run =
        RunShell(At(""), std::string("$F train --overwrite --out 'a run' --data ") + from + flags);
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(Count(run.err, "token files without a tokenizer"), Count(from, "bare"));
    const size_t at = run.err.find("next: folio ");
    ASSERT_NE(at, run.err.npos) << run.err;
    const std::string next = run.err.substr(at + 12, run.err.find('\n', at) - at - 12);
    const ProgramRun written = RunShell(At(""), "$F " + next + " --no-config");
    EXPECT_EQ(written.status, 0) << next << "\n" << written.err;
    EXPECT_NE(written.out, "");
  }
  const ProgramRun info = RunFolio("data info " + bare.string());
  EXPECT_TRUE(Contains(info.err, "token files without a tokenizer"));
}

TEST_F(RunDirectory, APromptOfUnknownCharactersNamesTheFirst) {
  ASSERT_EQ(Train().status, 0);
  ExpectError(3, "generate --prompt 'a Ж' --model " + At("run").string(), "'Ж' (U+0416)");
}

}  // namespace
}  // namespace folio
