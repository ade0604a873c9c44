// Runs and outputs containing symbolic links of another user: nothing outside of them changes.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <map>

#include "folio/commands/train/test_train.h"
#include "folio/data/dataset.h"
#include "folio/io/checksums.h"
#include "folio/model_files/checkpoint.h"
#include "folio/text/byte_tokenizer.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

class Links : public TrainTest {
 protected:
  // Names in a run directory, at every depth.
  static constexpr const char* kParts[] = {"last",
                                           "best",
                                           "steps",
                                           "data",
                                           "tensorboard",
                                           "config.toml",
                                           "metrics.jsonl",
                                           "loss.svg",
                                           "samples.jsonl",
                                           "data.fingerprint",
                                           "last/config.json",
                                           "last/train_state",
                                           "steps/4",
                                           "best/SHA256SUMS",
                                           "tensorboard/x"};

  void TrainWhole() {
    ASSERT_EQ(Train("--eval-every 2 --tensorboard --set train.checkpoint_every=2 train.keep_last=2 "
                    "log.sample_every=2 log.sample_tokens=2 --max-steps 6 --quiet")
                  .status,
              0);
    fs::create_directory(At("run/tensorboard/x"));
  }
  // Moves a part of `run` outside, and puts a link in its place.
  void LinkAway(const std::string& part) {
    fs::remove_all(At("run"));
    fs::remove_all(At("outside"));
    fs::copy(At("whole"), At("run"), fs::copy_options::recursive);
    fs::create_directories(At("outside/" + part).parent_path());
    fs::rename(At("run/" + part), At("outside/" + part));
    fs::create_symlink(At("outside/" + part), At("run/" + part));
    before_ = FilesBelow(At("outside"));
    ASSERT_FALSE(before_.empty() && part != "tensorboard/x");
  }
  // The command leaves the outside unchanged.
  ProgramRun Unchanged(const std::string& arguments) {
    const ProgramRun run = RunFolio(arguments);
    EXPECT_EQ(FilesBelow(At("outside")), before_) << arguments << "\n" << run.err;
    return run;
  }

  std::map<std::string, std::string> before_;
};

TEST_F(Links, InARunAreRefusedByWhoeverGoesOnWithIt) {
  TrainWhole();
  fs::rename(At("run"), At("whole"));
  for (const std::string part : kParts) {
    LinkAway(part);
    const ProgramRun run = Ended(3, Unchanged(Resumed("--max-steps 10 --quiet")));
    EXPECT_TRUE(Contains(run.err, "run/" + part + "' is a symbolic link", "it points to",
                         "outside/" + part, "help: replace it by its target"));
  }
}

TEST_F(Links, InARunGoWithItWhenItIsReplaced) {
  TrainWhole();
  fs::rename(At("run"), At("whole"));
  for (const std::string part : kParts) {
    LinkAway(part);
    Ended(2, Unchanged(Words("--quiet")));
    const ProgramRun run =
        Ended(0, Unchanged(Words("--quiet --overwrite --tensorboard --eval-every 2")));
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(At("run"))) {
      EXPECT_FALSE(entry.is_symlink()) << entry.path();
    }
  }
  // A kill leaves these names, and the lock.
  for (const std::string part :
       {".new", ".old", ".begun", ".last.tmp-1", ".last.old-1", ".last.new-1"}) {
    LinkAway("last");
    fs::create_symlink(At("outside/last"), At("run/" + part));
    EXPECT_EQ(Unchanged(Resumed("--quiet")).status, 3) << part;
    EXPECT_EQ(Unchanged(Words("--quiet --overwrite")).status, 0) << part;
  }
  LinkAway("config.toml");
  fs::create_symlink(At("outside/config.toml"), At("run/.lock"));
  const ProgramRun run = Ended(1, Unchanged(Words("--quiet --overwrite")));
  EXPECT_TRUE(Contains(run.err, "run/.lock is a symbolic link"));
}

TEST_F(Links, InARunAreReadByNameAndNotWritten) {
  TrainWhole();
  fs::rename(At("run"), At("whole"));
  for (const std::string part : {"last", "best", "metrics.jsonl", "config.toml", "loss.svg"}) {
    LinkAway(part);
    const std::string run = At("run").string();
    EXPECT_EQ(Unchanged("generate --model " + run + " --max-tokens 2 --prompt a").status, 0);
    EXPECT_EQ(Unchanged("eval perplexity --model " + run + " " + data_).status, 0);
    EXPECT_EQ(Unchanged("plot " + run + " --out " + run + "/loss.svg").status, 0) << part;
    EXPECT_FALSE(fs::is_symlink(At("run/loss.svg")));
  }
  // A crash left best/ under a temporary name, and best/ now leads elsewhere.
  LinkAway("best");
  fs::remove_all(At("run/last"));
  fs::rename(At("run/best"), At("run/.best.old-1"));
  Unchanged("generate --model " + At("run").string() + " --max-tokens 2 --prompt a");
}

TEST_F(Links, InAnOutputGoWithItWhenItIsReplaced) {
  TrainWhole();
  const std::string run = At("run").string(), out = At("out").string();
  const std::map<std::string, std::string> commands = {
      {"model.safetensors", "convert --to hf --overwrite " + run + " " + out},
      {"train.bin", "data prepare --tokenizer bytes --overwrite " + data_ + " --out " + out},
      {"tokenizer.json", "tokenizer train --vocab-size 260 --overwrite " + data_ + " --out " + out},
      {"meta.pkl", "convert --to nanogpt --overwrite " + run + " " + out}};
  for (const auto& [file, command] : commands) {
    fs::remove_all(At("outside"));
    fs::remove_all(At("out"));
    ASSERT_EQ(RunFolio(command).status, 0) << command << RunFolio(command).err;
    if (!fs::exists(At("out/" + file))) continue;
    fs::create_directory(At("outside"));
    fs::rename(At("out/" + file), At("outside/" + file));
    fs::create_symlink(At("outside/" + file), At("out/" + file));
    before_ = FilesBelow(At("outside"));
    EXPECT_EQ(Unchanged(command).status, 0) << command;
    EXPECT_FALSE(fs::is_symlink(At("out/" + file))) << command;
  }
}

TEST_F(Links, InADirectoryThatIsWrittenFileByFileAreReplaced) {
  TrainWhole();
  const auto weights = LoadModel(At("run/last"));
  const std::map<std::string, std::function<void(const fs::path&)>> writers = {
      {"a tokenizer", [](const fs::path& dir) { ByteTokenizer().Save(dir.string()); }},
      {"a model", [&](const fs::path& dir) { SaveModel(dir, *weights); }},
      {"checksums", [](const fs::path& dir) { WriteChecksums(dir); }},
      {"a data set", [](const fs::path& dir) { WriteDatasetInfo(dir.string(), {}); }},
      {"figures",
       [](const fs::path& dir) { Well(RunFolio("explain softmax --svg " + dir.string())); }}};
  for (const auto& [what, write] : writers) {
    for (const char* dir : {"dir", "outside"}) {
      fs::remove_all(At(dir));
      fs::create_directory(At(dir));
    }
    write(At("dir"));
    for (const auto& [name, bytes] : FilesBelow(At("dir"))) {
      fs::rename(At("dir/" + name), At("outside/" + name));
      WriteFileAtomically(At("outside/" + name), "precious");
      fs::create_symlink(At("outside/" + name), At("dir/" + name));
    }
    before_ = FilesBelow(At("outside"));
    EXPECT_FALSE(before_.empty()) << what;
    write(At("dir"));
    EXPECT_EQ(FilesBelow(At("outside")), before_) << what;
  }
}

TEST_F(Links, ThatLeadBackToThemselvesAreToldAsThat) {
  fs::create_symlink(At("loop"), At("loop"));
  const std::string loop = At("loop").string();
  for (const std::string& arguments :
       {"train --data " + loop + " --out " + At("run").string(),
        "train --data " + data_ + " --out " + loop, "generate --prompt a --model " + loop,
        "plot " + loop, "tokenizer encode a --tokenizer " + loop,
        "tokenizer train " + data_ + " --out " + loop, "data info " + loop,
        "data prepare " + data_ + " --out " + loop, "data prepare " + loop + " --out x"}) {
    const ProgramRun run = RunFolio(arguments);
    EXPECT_TRUE(run.status == 1 || run.status == 2 || run.status == 3) << arguments << run.err;
    EXPECT_TRUE(Contains(run.err, "symbolic links")) << arguments;
    EXPECT_FALSE(Contains(run.err, "o such")) << arguments << run.err;
  }
}

// Another disk inside of a run counts as a directory.
TEST_F(Links, AMountedDirectoryIsNone) {
  TrainWhole();
  const std::string text =
      "unshare --map-root-user --mount sh -c '"
      "mkdir disk && mv run/steps/* disk/ && mount --bind disk run/steps || exit 77; " +
      std::string("$F ") + Resumed("--max-steps 12 --quiet --no-config") + " && ls run/steps'";
  const ProgramRun run = RunShell(At(""), text);
  if (run.status == 77 || Contains(run.err, "unshare")) GTEST_SKIP() << "no mounts: " << run.err;
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(Contains(run.out, "10"));
  EXPECT_TRUE(fs::exists(At("disk/10/model.safetensors")));
}

class LeftFiles : public TrainTest {
 protected:
  // Everything that the shell text created below the test's directory has the modes of the umask.
  void ExpectModes(mode_t mask, const std::string& text) {
    const std::string umask = mask == 077 ? "umask 077; " : "umask 022; ";
    Well(RunShell(At(""), umask + text));
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

// A link given by the user is followed, even if its target does not exist yet; nothing is created
// through a link to nothing.
TEST_F(LeftFiles, ARunBehindALinkIsTrainedAndGoneOnWith) {
  fs::create_directory(At("real"));
  fs::create_directory_symlink(At("real"), At("run"));
  Well(Train(""));
  EXPECT_TRUE(fs::is_symlink(At("run")));
  EXPECT_TRUE(fs::exists(At("real/last/model.safetensors")));
  Well(RunFolio(Resumed("--max-steps 6")));
  EXPECT_TRUE(fs::is_symlink(At("run")));
  fs::remove(At("run"));
  fs::create_directory_symlink(At("nowhere/x"), At("run"));
  Ended(1, Train(""));
  EXPECT_FALSE(fs::exists(At("nowhere")));
}

}  // namespace
}  // namespace folio
