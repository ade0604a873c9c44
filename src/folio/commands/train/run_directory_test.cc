// The files of a run, resuming, and the ways to end it, through the real program.
#include "folio/run/run_directory.h"

#include <gtest/gtest.h>

#include <fstream>

#include "folio/commands/train/test_train.h"
#include "folio/io/model_dir.h"
#include "folio/train/run_log.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

using RunDirectory = TrainTest;

TEST_F(RunDirectory, ARunLeavesWhatIsPromised) {
  Well(Train());
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
  Well(Train());
  const std::string before = ReadFile(At("run/metrics.jsonl"));
  EXPECT_TRUE(Contains(Ended(2, Train()).err, "' already contains a run"));
  EXPECT_EQ(ReadFile(At("run/metrics.jsonl")), before);
  Well(Train("--overwrite --seed 5"));
  EXPECT_NE(ReadFile(At("run/metrics.jsonl")), before);
}

TEST_F(RunDirectory, OneThatEndedBeforeItsFirstCheckpointIsAdvisedOneWay) {
  Well(Train());
  fs::remove_all(At("run/last"));
  fs::remove_all(At("run/best"));
  const ProgramRun again = Ended(2, Train()), resumed = RunFolio(Resumed("--max-steps 6"));
  EXPECT_TRUE(Contains(again.err, "before its first checkpoint", "--overwrite"));
  EXPECT_FALSE(Contains(again.err, "--resume")) << again.err;
  EXPECT_EQ(resumed.status, 3);
  EXPECT_TRUE(Contains(resumed.err, "before its first checkpoint", "--overwrite"));
  EXPECT_FALSE(Contains(resumed.err, "remove")) << resumed.err;
  Well(Train("--overwrite"));
}

TEST_F(RunDirectory, WhatDoesNotBeginLeavesNothingBehind) {
  WriteFileAtomically(At("short.txt"), "abc");
  Ended(3, Train("--data " + At("short.txt").string()));
  EXPECT_FALSE(fs::exists(At("run")));
  Ended(3, Train("--data " + At("none.txt").string()));
  EXPECT_FALSE(fs::exists(At("run")));
}

TEST_F(RunDirectory, AReplacementThatDoesNotBeginLeavesTheOldRun) {
  Well(Train());
  const std::string before = ReadFile(At("run/metrics.jsonl"));
  Ended(3, Train("--overwrite --data " + At("none.txt").string()));
  EXPECT_EQ(ReadFile(At("run/metrics.jsonl")), before);
  EXPECT_TRUE(fs::exists(At("run/last/model.safetensors")));
  EXPECT_FALSE(fs::exists(At("run/.replaced")));
}

TEST_F(RunDirectory, GenerateTakesTheBestCheckpointOfARun) {
  Well(Train());
  EXPECT_EQ(FindModelDir(At("run")), At("run/best"));
  const std::string words =
      "generate --prompt 'a small' --max-tokens 30 --seed 3 --model " + At("run").string();
  const ProgramRun one = Well(RunFolio(words)), again = RunFolio(words);
  EXPECT_EQ(one.out, again.out);
  EXPECT_EQ(one.out.substr(0, 7), "a small");
}

// A run without a tokenizer, and one with spaces in its name, say what to type next.
TEST_F(RunDirectory, TheCommandThatARunNamesWorks) {
  Well(Train());
  const fs::path data = At("run/data"), bare = At("bare");
  fs::create_directory(bare);
  fs::copy_file(data / "train.bin", bare / "train.bin");
  fs::copy_file(data / "val.bin", bare / "valid.bin");
  const std::string flags =
      " --batch 2 --max-steps 1 --no-config --set model.n_layer=1 model.n_head=1 model.n_embd=8"
      " model.n_positions=16 model.vocab_size=30 train.eval_batches=1";
  for (const char* from : {"bare", "text.txt"}) {
    const ProgramRun run = Well(
        RunShell(At(""), std::string("$F train --overwrite --out 'a run' --data ") + from + flags));
    EXPECT_EQ(Count(run.err, "token files without a tokenizer"), Count(from, "bare"));
    const size_t at = run.err.find("next: folio ");
    ASSERT_NE(at, run.err.npos) << run.err;
    const std::string next = run.err.substr(at + 12, run.err.find('\n', at) - at - 12);
    const ProgramRun written = Well(RunShell(At(""), "$F " + next + " --no-config"));
    EXPECT_NE(written.out, "");
  }
  EXPECT_TRUE(
      Contains(RunFolio("data info " + bare.string()).err, "token files without a tokenizer"));
}

using Resumes = TrainTest;

TEST_F(Resumes, OtherSettingsAreTold) {
  Well(Train());
  const ProgramRun same = RunFolio(Resumed("--max-steps 4"));
  EXPECT_FALSE(Contains(same.err, " changed from ")) << same.err;
  EXPECT_TRUE(Contains(
      Well(RunFolio(Resumed("--max-steps 6 --lr 0.01 --threads 1"))).err,
      "train.max_steps changed from 4 to 6; train.learning_rate changed from 0.001 to 0.01: ",
      "train.threads changed from 0 to 1; this does not change the results"));
  EXPECT_TRUE(Contains(Ended(2, RunFolio(Resumed("--max-steps 8 --set model.n_layer=2"))).err,
                       "model.n_layer cannot change", "changed from 1 to 2"));
}

// Neither a preset nor defaults replace lost settings.
TEST_F(Resumes, SettingsThatAreLostAreNotGuessed) {
  Well(Train());
  const std::string config = ReadFile(At("run/config.toml"));
  const auto run = FilesBelow(At("run/last"));
  fs::rename(At("run/config.toml"), At("kept.toml"));
  for (const std::string more :
       {"--max-steps 6", "--max-steps 6 --preset char-cpu", "--max-steps 6 --lr 0.01"}) {
    ExpectError(3, Resumed(more), "run/config.toml is missing or empty",
                "the settings of the run are unknown:", "train.", "--config FILE");
  }
  WriteFileAtomically(At("run/config.toml"), "");
  ExpectError(3, Resumed("--max-steps 6"), "run/config.toml is missing or empty");
  // A lost line is not taken from the preset.
  const size_t line = config.find("learning_rate = ");
  WriteFileAtomically(At("run/config.toml"),
                      config.substr(0, line) + config.substr(config.find('\n', line) + 1));
  ExpectError(3, Resumed("--max-steps 6 --preset char-cpu"), "lacks settings of the run",
              "train.learning_rate (preset char-cpu has ");
  EXPECT_EQ(FilesBelow(At("run/last")), run);
  EXPECT_TRUE(Contains(Well(RunFolio(Resumed("--max-steps 5"))).err,
                       "lacks train.learning_rate (built-in has 0.001)"));
  fs::remove(At("run/config.toml"));
  Well(RunShell(".", "$F " + Resumed("--max-steps 6 --config " + At("kept.toml").string())));
  EXPECT_TRUE(fs::exists(At("run/config.toml")));
}

TEST_F(Resumes, ADamagedCheckpointGivesWayToTheOneBefore) {
  Well(Train("--eval-every 2"));
  ASSERT_TRUE(fs::exists(At("run/steps/2/train_state/state.json")));
  std::ofstream(At("run/last/model.safetensors"), std::ios::app) << "more";
  EXPECT_TRUE(Contains(Well(RunFolio(Resumed("--max-steps 6"))).err,
                       "run/last/model.safetensors is damaged", "; resuming from",
                       "run/steps/2 (step 2)", "resuming at step 2"));
  EXPECT_EQ(ReadRunLog(At("run")).size(), 7u);
}

TEST_F(Resumes, DataThatChangedIsToldLoudly) {
  const std::string prepare = "data prepare --out " + At("data").string() + " ";
  Well(RunFolio(prepare + data_));
  Well(Train("--data " + At("data").string()));
  const ProgramRun same = RunFolio(Resumed("--max-steps 5"));
  EXPECT_FALSE(Contains(same.err, "CHANGED")) << same.err;
  const std::string text = ReadFile(data_);
  WriteFileAtomically(data_, text.substr(37) + text.substr(0, 37));
  Well(RunFolio(prepare + "--overwrite " + data_));
  EXPECT_TRUE(Contains(Well(RunFolio(Resumed("--max-steps 6"))).err,
                       "the data has changed since the run started:"));
}

using TrainEnds = TrainTest;

constexpr char kBlowsUp[] =
    "--max-steps 30 --set train.learning_rate=1000 train.weight_decay=1000 train.warmup_steps=0 "
    "train.schedule=constant "
    "train.eval_every=0 train.checkpoint_every=1 train.max_skipped_steps=2 ";

TEST_F(TrainEnds, StepsAreSkippedAndThenItDiverges) {
  const ProgramRun run = Ended(5, Train(kBlowsUp));
  EXPECT_TRUE(Contains(run.err, " skipped: non-finite ", "training diverged at step",
                       "of 3 skipped in a row", "no checkpoint had been written"));
  const std::vector<StepMetrics> log = ReadRunLog(At("run"));
  EXPECT_EQ(log.back().skipped.substr(0, 11), "non-finite ");
  const ProgramRun events = Ended(5, Train(std::string("--overwrite --json ") + kBlowsUp));
  EXPECT_EQ(Count(events.out, "{\"event\":\"skipped\""), 2u) << events.out;
}

TEST_F(TrainEnds, TheOperationThatBreaksIsNamed) {
  EXPECT_TRUE(Contains(Ended(5, Train(std::string("--check-numerics ") + kBlowsUp)).err, "step ",
                       "produced a number that is not finite", "element ", "transformer.",
                       "its inputs are finite"));
  Well(Train("--overwrite --check-numerics"));
}

TEST_F(TrainEnds, PatienceIsSaid) {
  // Nothing is learned: no evaluation is better than the first.
  const ProgramRun run =
      Well(Train("--patience 2 --max-steps 50 --set train.learning_rate=0 train.min_lr=0 "
                 "train.eval_every=1"));
  EXPECT_TRUE(Contains(run.out, "stopped after 3 steps",
                       "stopped early: no improvement in 2 evaluations (--patience)"));
  EXPECT_TRUE(Contains(run.err, "next: folio generate --model"));
  EXPECT_EQ(ReadRunLog(At("run")).back().ended_by, "patience");
}

TEST_F(TrainEnds, TokensAndTimeAreSaid) {
  const ProgramRun tokens = Well(Train("train.max_tokens=64 --json"));
  EXPECT_TRUE(Contains(tokens.out, "\"ended_by\":\"max_tokens\"", "\"step\":2,\"tokens\":64"));
  const ProgramRun time = Well(Train("--overwrite --max-steps 1000000 --max-time 2s"));
  EXPECT_TRUE(Contains(time.out, "limit reached: --max-time is 2s"));
  EXPECT_TRUE(Contains(time.err, "continue with: folio train --resume --out"));
  Well(RunFolio(Resumed("--max-time 1s")));
  ExpectError(2, Words("--overwrite --max-time soon"), "train.max_time", "'soon' is not a time");
}

}  // namespace
}  // namespace folio
