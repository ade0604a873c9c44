// These tests check what the program leaves on the disk: for whom, and where.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "folio/commands/train/test_train.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

class LeftFiles : public TrainTest {
 protected:
  // Everything that the text of a shell made below the test's directory is as the umask says.
  void ExpectModes(mode_t mask, const std::string& text) {
    const std::string umask = mask == 077 ? "umask 077; " : "umask 022; ";
    const ProgramRun run = RunShell(At(""), umask + text);
    ASSERT_EQ(run.status, 0) << run.err;
    size_t seen = 0;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(At("made"))) {
      struct stat info = {};
      ASSERT_EQ(lstat(entry.path().c_str(), &info), 0);
      const mode_t all = S_ISDIR(info.st_mode) ? 0777 : 0666;
      EXPECT_EQ(info.st_mode & 07777, all & ~mask) << entry.path();
      ++seen;
    }
    EXPECT_GT(seen, 20U);
    fs::remove_all(At("made"));
  }
};

TEST_F(LeftFiles, HaveTheModesOfTheUmask) {
  const std::string text = "mkdir made && $F " + Words("--eval-every 2 --tensorboard --no-config") +
                           " && mv run made/ && "
                           "$F data prepare --no-config --tokenizer bytes " +
                           data_ +
                           " --out made/data && "
                           "$F convert --no-config --to hf made/run made/hf && "
                           "$F plot --no-config made/run --out made/curves.html";
  for (const mode_t mask : {mode_t{022}, mode_t{077}}) ExpectModes(mask, text);
}

// Whoever names a link means what it leads to, whether it is there yet or not; nothing is made
// where a link to nothing points.
TEST_F(LeftFiles, ARunBehindALinkIsTrainedAndGoneOnWith) {
  fs::create_directory(At("real"));
  fs::create_directory_symlink(At("real"), At("run"));
  ASSERT_EQ(Train("").status, 0);
  EXPECT_TRUE(fs::is_symlink(At("run")));
  EXPECT_TRUE(fs::exists(At("real/last/model.safetensors")));
  ASSERT_EQ(RunFolio(Resumed("--max-steps 6")).status, 0);
  EXPECT_TRUE(fs::is_symlink(At("run")));
  fs::remove(At("run"));
  fs::create_directory_symlink(At("nowhere/x"), At("run"));
  const ProgramRun run = Train("");
  EXPECT_EQ(run.status, 1) << run.err;
  EXPECT_FALSE(fs::exists(At("nowhere")));
}

}  // namespace
}  // namespace folio
