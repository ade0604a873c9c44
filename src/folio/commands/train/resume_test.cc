// Going on with a run through the real program: what it says, and what it goes on from.
#include <gtest/gtest.h>

#include <fstream>

#include "folio/commands/train/test_train.h"
#include "folio/train/run_log.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

using Resumes = TrainTest;

TEST_F(Resumes, OtherSettingsAreTold) {
  ASSERT_EQ(Train().status, 0);
  const ProgramRun same = RunFolio(Resumed("--max-steps 4"));
  EXPECT_FALSE(Contains(same.err, " was ")) << same.err;
  const ProgramRun resumed = RunFolio(Resumed("--max-steps 6 --lr 0.01 --threads 1"));
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_TRUE(Contains(resumed.err,
                       "train.max_steps was 4, is 6; train.learning_rate was 0.001, is 0.01: ",
                       "train.threads was 0, is 1: the numbers of its steps stay the same"))
      << resumed.err;
  const ProgramRun refused = RunFolio(Resumed("--max-steps 8 --set model.n_layer=2"));
  EXPECT_EQ(refused.status, 2);
  EXPECT_TRUE(Contains(refused.err, "model.n_layer cannot change", "was 1, is 2")) << refused.err;
}

// Neither a preset nor what is built in takes the place of settings that are lost.
TEST_F(Resumes, SettingsThatAreLostAreNotGuessed) {
  ASSERT_EQ(Train().status, 0);
  const std::string config = ReadFile(At("run/config.toml"));
  const auto run = FilesBelow(At("run/last"));
  fs::rename(At("run/config.toml"), At("kept.toml"));
  for (const std::string more :
       {"--max-steps 6", "--max-steps 6 --preset char-cpu", "--max-steps 6 --lr 0.01"}) {
    ExpectError(3, Resumed(more), "run/config.toml is missing, or empty",
                "nobody knows with which settings", "train.", "--config FILE");
  }
  WriteFileAtomically(At("run/config.toml"), "");
  ExpectError(3, Resumed("--max-steps 6"), "run/config.toml is missing, or empty");
  // A line that is lost is not the preset's to say.
  const size_t line = config.find("learning_rate = ");
  WriteFileAtomically(At("run/config.toml"),
                      config.substr(0, line) + config.substr(config.find('\n', line) + 1));
  ExpectError(3, Resumed("--max-steps 6 --preset char-cpu"), "does not say all settings",
              "train.learning_rate (preset char-cpu has ");
  EXPECT_EQ(FilesBelow(At("run/last")), run);
  const ProgramRun older = RunFolio(Resumed("--max-steps 5"));
  EXPECT_EQ(older.status, 0) << older.err;
  EXPECT_TRUE(Contains(older.err, "does not say train.learning_rate (built-in has 0.001)"))
      << older.err;
  fs::remove(At("run/config.toml"));
  const ProgramRun given =
      RunShell(".", "$F " + Resumed("--max-steps 6 --config " + At("kept.toml").string()));
  EXPECT_EQ(given.status, 0) << given.err;
  EXPECT_TRUE(fs::exists(At("run/config.toml")));
}

TEST_F(Resumes, ADamagedCheckpointGivesWayToTheOneBefore) {
  ASSERT_EQ(Train("--eval-every 2").status, 0);
  ASSERT_TRUE(fs::exists(At("run/steps/2/train_state/state.json")));
  std::ofstream(At("run/last/model.safetensors"), std::ios::app) << "more";
  const ProgramRun resumed = RunFolio(Resumed("--max-steps 6"));
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_TRUE(Contains(resumed.err, "run/last/model.safetensors is damaged", "going on from",
                       "run/steps/2 (step 2)", "going on after step 2"))
      << resumed.err;
  EXPECT_EQ(ReadRunLog(At("run")).size(), 7u);
}

TEST_F(Resumes, DataThatChangedIsToldLoudly) {
  const std::string prepare = "data prepare --out " + At("data").string() + " ";
  ASSERT_EQ(RunFolio(prepare + data_).status, 0);
  ASSERT_EQ(Train("--data " + At("data").string()).status, 0);
  const ProgramRun same = RunFolio(Resumed("--max-steps 5"));
  EXPECT_FALSE(Contains(same.err, "CHANGED")) << same.err;
  const std::string text = ReadFile(data_);
  WriteFileAtomically(data_, text.substr(37) + text.substr(0, 37));
  ASSERT_EQ(RunFolio(prepare + "--overwrite " + data_).status, 0);
  const ProgramRun changed = RunFolio(Resumed("--max-steps 6"));
  EXPECT_EQ(changed.status, 0) << changed.err;
  EXPECT_TRUE(Contains(changed.err, "THE DATA HAS CHANGED")) << changed.err;
}

}  // namespace
}  // namespace folio
