// These tests check the first contact of a user who has a text and types `folio train`, through the
// real program.
#include <gtest/gtest.h>

#include <fstream>

#include "folio/commands/train/test_train.h"
#include "folio/train/run_log.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

class FirstRun : public TrainTest {
 protected:
  std::string Out() const { return " --out " + At("run").string() + " "; }
};

TEST_F(FirstRun, ATextAloneIsEnough) {
  const ProgramRun run = Well(RunFolio("train --budget 1s --data " + data_ + Out()));
  EXPECT_TRUE(Contains(run.err,
                       "automatic settings: characters, 2 layers of 64 channels, sequences of",
                       "chosen for ", "1.0s on this machine", "learning rate ",
                       "training tokens, read ", "estimated time 1.0s: "));
  EXPECT_FALSE(Contains(run.err, "(use --budget 1h for a longer run)"));
  EXPECT_EQ(Setting("budget"), "\"1s\"");
  EXPECT_EQ(Setting("n_embd"), "64");
  EXPECT_EQ(Setting("tokenizer"), "\"char\"");
  Well(RunFolio("generate --max-tokens 5 --model " + At("run").string()));
}

TEST_F(FirstRun, WhatIsSaidBesideTheTextStays) {
  const ProgramRun run =
      Well(RunFolio("train --max-steps 3 --batch 2 --tokenizer bytes --data " + data_ + Out()));
  EXPECT_TRUE(Contains(run.err, "automatic settings: tokens", "3 steps of 2 sequences",
                       "--- sample after step"));
  EXPECT_EQ(Setting("max_steps"), "3");
  EXPECT_EQ(ReadRunLog(At("run")).back().step, 3);
  EXPECT_EQ(Setting("budget"), "\"\"");
  EXPECT_TRUE(Contains(RunFolio("train --dry-run --data " + data_ + Out()).err,
                       "(use --budget 1h for a longer run)"));
  ExpectError(2, "train --budget soon --data " + data_ + Out(), "'soon' is not a time");
}

TEST_F(FirstRun, ASizeIsChosenWhoseHeadsShareKeysAndValuesEvenly) {
  const std::string train = "train --max-steps 1 --batch 2 --data " + data_ + Out();
  Well(RunFolio(train + "--set model.n_kv_head=3"));
  EXPECT_EQ(Setting("n_head"), "3");
  EXPECT_EQ(Setting("n_kv_head"), "3");
  ExpectError(2, train + "--overwrite --set model.n_kv_head=5", "n_kv_head is 5");
}

TEST_F(FirstRun, ALongerSequenceIsWhatTheSizeIsChosenFor) {
  EXPECT_TRUE(Contains(
      Well(RunFolio("train --dry-run --budget 1s --context 96 --data " + data_ + Out())).err,
      "sequences of 96"));
}

TEST_F(FirstRun, ABudgetForASizeThatIsSetChoosesSteps) {
  const std::string train = "train --preset debug --budget 1s --data " + data_ + Out();
  const ProgramRun run = Well(RunFolio(train));
  EXPECT_TRUE(Contains(run.err, "automatic settings: ", "steps of 2 sequences of 8",
                       "the end of the budget"));
  EXPECT_EQ(Setting("n_embd"), "4");
  // It ended at the step that its settings and its checkpoint announced.
  const int64_t steps = ReadRunLog(At("run")).back().step;
  EXPECT_EQ(Setting("max_steps"), std::to_string(steps));
  EXPECT_TRUE(Contains(ReadFile(At("run/last/train_state/state.json")),
                       "\"steps\": " + std::to_string(steps)));
  EXPECT_TRUE(Contains(RunFolio(Resumed("")).err, "the run has completed its"));
  EXPECT_FALSE(
      // that has no effect then
      Contains(RunFolio(Resumed("--dry-run")).out, "estimated time 1.0s"));
  ExpectError(2, Resumed("--budget 1h"),
              "remove --budget, and set the number of steps with --max-steps");
  Well(RunFolio(Resumed("--max-steps " + std::to_string(steps + 3))));
  EXPECT_EQ(ReadRunLog(At("run")).back().step, steps + 3);
}

TEST_F(FirstRun, TheDecayFollowsTheSteps) {
  const std::string preset = "train --preset char-cpu --max-steps 2 --data " + data_ + Out() +
                             "--set train.warmup_steps=0 train.eval_every=0 ";
  const ProgramRun run = Well(RunFolio(preset));
  EXPECT_TRUE(Contains(run.err, "cosine decay to 0.0001 at step 2\n"));
  EXPECT_NEAR(*ReadRunLog(At("run")).at(1).lr, (1e-3 + 1e-4) / 2, 1e-12);
  EXPECT_TRUE(Contains(RunFolio(preset + "--overwrite --set train.decay_steps=7").err,
                       "decay to 0.0001 at step 7\n"));
  // Another program's preset keeps its schedule.
  EXPECT_TRUE(Contains(RunFolio(preset + "--overwrite --rng torch").err,
                       "decay to 0.0001 at step 2,000\n"));
}

TEST_F(FirstRun, SeveralTextsAreOneData) {
  WriteFileAtomically(At("more.txt"), std::string(1000, 'Z'));
  Well(Train("--data " + data_ + " --data " + At("more.txt").string()));
  EXPECT_TRUE(Contains(ReadFile(At("run/data/dataset.json")), "text.txt", "more.txt"));
  fs::copy(At("run/data"), At("data"));
  ExpectError(2, Words("--overwrite --data " + data_ + " --data " + At("data").string()),
              "' is a data set and cannot be combined with other data");
  ExpectError(2, Words("--overwrite --data " + At("run/data").string()),
              "' belongs to the run to be replaced");
}

TEST_F(FirstRun, WhatIsHeldOutIsSaid) {
  const auto plan = [&](const std::string& more) {
    return Train("--dry-run --val-fraction 0.5 " + more).out;
  };
  EXPECT_TRUE(Contains(plan(""), " held-out tokens", "14 blocks spread over the text"));
  EXPECT_TRUE(Contains(plan("--val-split tail"), " held-out tokens (the end of the text)"));
  EXPECT_TRUE(Contains(plan("--rng torch"), " held-out tokens (the end of the text)"));
  Well(Train("--val-fraction 0.5"));
  const ProgramRun info = RunFolio("data info " + At("run/data").string());
  EXPECT_TRUE(Contains(info.out, "blocks spread over the text"));
  // A run keeps its held-out part.
  ExpectError(2, Resumed("--max-steps 9 --val-split tail"), "data.val_split cannot change");
}

TEST_F(FirstRun, WithoutHeldOutTextNothingIsTrained) {
  ExpectError(2, "train --preset debug --val-fraction 0 --data " + data_ + Out(),
              "--val-fraction 0: training needs held-out text", "--val-fraction 0.01");
  EXPECT_EQ(Names(), Strings{"text.txt"});
  const std::string data = At("data").string();
  Well(RunFolio("data prepare --val-fraction 0 --out " + data + " " + data_));
  ExpectError(3, "train --preset debug --data " + data + Out(), "nothing is held out",
              "prepare the text again");
}

TEST_F(FirstRun, ADryRunTakesATextAndLeavesNothing) {
  const Strings before = Names();
  EXPECT_TRUE(Contains(Well(Train("--dry-run")).out, "parameters", "estimated time "));
  EXPECT_EQ(Names(), before);
}

TEST_F(FirstRun, ATokenizerBesideDataOfAnotherIsRefused) {
  Well(Train());
  fs::copy(At("run/data"), At("data"));
  const std::string on_data = "--overwrite --data " + At("data").string();
  ExpectError(2, Words(on_data + " --tokenizer bytes"),
              "--tokenizer bytes: the data has a different tokenizer");
  Well(Train(on_data + " --tokenizer char"));
}

TEST_F(FirstRun, ItsSettingsRepeatARun) {
  Well(Train());
  const ProgramRun again =
      Well(RunShell(".", "unset HOME; $F train --config " + At("run/config.toml").string() +
                             " --out " + At("again").string()));
  EXPECT_EQ(ReadFile(At("again/last/model.safetensors")),
            ReadFile(At("run/last/model.safetensors")));
  // The second has its data from elsewhere, and can be repeated and resumed nevertheless.
  Well(RunFolio("train --resume --max-steps 5 --out " + At("again").string()));
}

TEST_F(FirstRun, AFinishedRunSaysSo) {
  Well(Train());
  const auto files = FilesBelow(At("run"));
  EXPECT_TRUE(Contains(Well(RunFolio(Resumed(""))).err,
                       "the run has completed its 4 steps; continue with --max-steps 8"));
  EXPECT_EQ(FilesBelow(At("run")), files);
}

TEST_F(FirstRun, TheFirstEvaluationIsShort) {
  const std::string whole = " --set train.eval_batches=40 --json --max-steps 1";
  const auto first = [&](const std::string& more) {
    Well(Train("--overwrite" + whole + more));
    return *ReadRunLog(At("run")).front().val_loss;
  };
  const double of_four = first(""), of_all = first(" --set train.first_eval_batches=0");
  EXPECT_NE(of_four, of_all);
  EXPECT_EQ(first(" --set train.first_eval_batches=50"), of_all);
  EXPECT_EQ(first(" --set train.eval_batches=4"), of_four);
}

}  // namespace
}  // namespace folio
