// Data sets that are made in several runs.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <utility>

#include "folio/corpus/prepare.h"
#include "folio/io/file.h"
#include "folio/io/test_files.h"

namespace folio {
namespace {

struct Stop {};

class PrepareRestart : public InTemporaryDirectory {
 protected:
  void SetUp() override {
    InTemporaryDirectory::SetUp();
    std::string text;
    for (int i = 0; i < 3000; ++i) text += "line " + std::to_string(i * i) + " \u20AC\n";
    WriteFileAtomically(At("a.txt"), text);
    WriteFileAtomically(At("b.txt"), "");
    std::string lines;
    for (int i = 0; i < 500; ++i) lines += "{\"text\": \"document " + std::to_string(i) + "\"}\n";
    WriteFileAtomically(At("c.jsonl"), lines);
  }

  PrepareOptions Options(const std::string& tokenizer, const std::string& out) {
    PrepareOptions options;
    for (const char* name : {"a.txt", "b.txt", "c.jsonl"}) {
      options.files.push_back(At(name).string());
    }
    options.tokenizer = tokenizer;
    options.out = At(out).string();
    options.val_fraction = 0.05;
    options.piece_bytes = 1000;
    options.checkpoint_bytes = 5000;
    return options;
  }

  // Every file and what is in it.
  std::map<std::string, std::string> Contents(const std::string& dir) {
    std::map<std::string, std::string> contents;
    for (const auto& entry : std::filesystem::directory_iterator(At(dir))) {
      contents[entry.path().filename().string()] = ReadFile(entry.path());
    }
    return contents;
  }

  // Runs until so many bytes are dealt with; true if it came to the end.
  bool RunUntil(const PrepareOptions& options, int64_t bytes) {
    PrepareHooks hooks;
    hooks.progress = [&](int64_t done, int64_t) {
      if (done >= bytes) throw Stop{};
    };
    hooks.going_on = [&](int64_t done) { gone_on_at_ = done; };
    hooks.note = [&](const std::string& text) { notes_.push_back(text); };
    try {
      PrepareDataset(options, hooks);
    } catch (const Stop&) {
      return false;
    }
    return true;
  }

  std::vector<std::string> notes_;
  int64_t gone_on_at_ = 0;
};

TEST_F(PrepareRestart, StoppedAgainAndAgainItMakesTheSame) {
  for (const char* tokenizer : {"char", "bytes"}) {
    for (const int64_t shard_tokens : {0, 7001}) {
      PrepareOptions options = Options(tokenizer, "whole");
      options.shard_tokens = shard_tokens;
      options.format = shard_tokens == 0 ? "folio" : "llmc";
      PrepareDataset(options);
      options.out = At("parts").string();
      int runs = 1;
      notes_.clear();
      for (int64_t bytes = 1; !RunUntil(options, bytes); ++runs) bytes += 9001;
      EXPECT_GT(runs, 5);
      EXPECT_GT(notes_.size(), 5u);
      EXPECT_TRUE(Contains(notes_.back(), "going on"));
      EXPECT_EQ(Contents("parts"), Contents("whole")) << tokenizer << " " << shard_tokens;
      EXPECT_TRUE(Dataset(At("parts").string()).Verify());
      std::filesystem::remove_all(At("whole"));
      std::filesystem::remove_all(At("parts"));
    }
  }
  EXPECT_EQ(Names(), (Strings{"a.txt", "b.txt", "c.jsonl"}));
}

TEST_F(PrepareRestart, AStopLosesNothing) {
  PrepareOptions options = Options("bytes", "out");
  options.checkpoint_bytes = 1 << 26;
  ASSERT_FALSE(RunUntil(options, 100000));
  ASSERT_TRUE(RunUntil(options, int64_t{1} << 40));
  EXPECT_GE(gone_on_at_, 100000);
}

// What a kill leaves behind: more in the files than the last checkpoint knows of.
TEST_F(PrepareRestart, WhatWasWrittenAfterTheCheckpointIsCutOff) {
  const PrepareOptions options = Options("bytes", "out");
  ASSERT_FALSE(RunUntil(options, 100000));
  for (const char* name : {"train.bin", "val.bin"}) {
    std::ofstream(At(std::string(".out.partial/") + name), std::ios::app) << "torn of";
  }
  EXPECT_TRUE(RunUntil(options, int64_t{1} << 40));
  PrepareDataset(Options("bytes", "whole"));
  EXPECT_EQ(Contents("out"), Contents("whole"));
}

TEST_F(PrepareRestart, WhatIsNotTheSameBeginsAgain) {
  const PrepareOptions good = Options("bytes", "out");
  PrepareDataset(Options("bytes", "whole"));
  const auto begins_again = [&](const PrepareOptions& first, const std::string& because,
                                const std::function<void()>& between = {}) {
    ASSERT_FALSE(RunUntil(first, 100000));
    if (between) between();
    notes_.clear();
    ASSERT_TRUE(RunUntil(good, int64_t{1} << 40));
    ASSERT_EQ(notes_.size(), 1u) << because;
    EXPECT_TRUE(Contains(notes_[0], because, "beginning again"));
    EXPECT_EQ(Contents("out"), Contents("whole")) << because;
    std::filesystem::remove_all(At("out"));
  };
  PrepareOptions other = good;
  other.tokenizer = "char";
  begins_again(other, "another tokenizer");
  other = good;
  other.val_fraction = 0.04;
  begins_again(other, "another val-fraction");
  other = good;
  other.special = "allow";
  begins_again(other, "another special");
  other = good;
  other.shard_tokens = 10000;
  begins_again(other, "another shard-tokens");
  other = good;
  std::swap(other.files[0], other.files[1]);
  begins_again(other, "another text");
  begins_again(good, "another text", [&] {
    const auto time = std::filesystem::last_write_time(At("a.txt"));
    std::filesystem::last_write_time(At("a.txt"), time + std::chrono::seconds(1));
  });
  begins_again(good, "cannot be read",
               [&] { std::filesystem::remove(At(".out.partial/progress.json")); });
  begins_again(good, "cannot be read",
               [&] { WriteFileAtomically(At(".out.partial/progress.json"), "{}"); });
  begins_again(good, "train.bin", [&] { WriteFileAtomically(At(".out.partial/train.bin"), ""); });
}

TEST_F(PrepareRestart, ACharacterSetThatWasTamperedWithIsNotTrusted) {
  const PrepareOptions options = Options("char", "out");
  ASSERT_FALSE(RunUntil(options, 100000));
  std::filesystem::remove(At(".out.partial/tokenizer.json"));
  ASSERT_TRUE(RunUntil(options, int64_t{1} << 40));
  EXPECT_TRUE(Contains(notes_.back(), "beginning again"));
  PrepareDataset(Options("char", "whole"));
  EXPECT_EQ(Contents("out"), Contents("whole"));
}

TEST_F(PrepareRestart, TwoProcessesDoNotMakeTheSame) {
  const PrepareOptions options = Options("bytes", "out");
  PrepareHooks hooks;
  bool tried = false;
  hooks.progress = [&](int64_t done, int64_t total) {
    if (tried || done <= total / 2) return;
    tried = true;
    EXPECT_TRUE(
        Contains(ErrorOf([&] { PrepareDataset(options); }, ErrorKind::kRuntime), "somebody else"));
  };
  PrepareDataset(options, hooks);
  EXPECT_TRUE(tried);
}

TEST_F(PrepareRestart, NothingIsKeptWhereNobodyGoesOn) {
  PrepareOptions options = Options("bytes", "out");
  options.keep_partial = false;
  EXPECT_FALSE(RunUntil(options, 100000));
  EXPECT_EQ(Names(), (Strings{"a.txt", "b.txt", "c.jsonl"}));
}

// Runs the real program and kills it when `file` has grown to so many bytes; true if it ended by
// itself, with status 0.
bool RunAndKill(std::vector<std::string> arguments, const std::filesystem::path& file,
                uintmax_t bytes) {
  arguments.insert(arguments.begin(), FOLIO_PROGRAM);
  arguments.insert(arguments.end(), {"--quiet", "--no-config"});
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  char* const environment[] = {nullptr};
  pid_t pid = 0;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  const int failed = posix_spawn(&pid, FOLIO_PROGRAM, &actions, nullptr, argv.data(), environment);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    ADD_FAILURE() << "cannot run " << FOLIO_PROGRAM;
    return true;
  }
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    std::error_code missing;
    const uintmax_t size = std::filesystem::file_size(file, missing);
    if (!missing && size >= bytes) {
      kill(pid, SIGKILL);
      waitpid(pid, &status, 0);
      break;
    }
    usleep(200);
  }
  EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0) << WEXITSTATUS(status);
  return !WIFSIGNALED(status);
}

TEST_F(PrepareRestart, KilledItGoesOnToTheSame) {
  {
    std::ofstream big(At("big.txt"), std::ios::binary);
    const std::string text = ReadFile(At("a.txt"));
    for (int i = 0; i < 1700; ++i) big << text;  // more than one checkpoint
  }
  const std::string text = At("big.txt").string();
  const auto command = [&](const char* out) {
    return Strings{"data", "prepare", text, "--tokenizer", "bytes", "--out", At(out).string()};
  };
  const std::filesystem::path growing = At(".parts.partial/train.bin");
  ASSERT_TRUE(RunAndKill(command("whole"), growing, 1));
  int kills = 0;
  while (
      !RunAndKill(command("parts"), growing, 60000000 + 8000000 * static_cast<uintmax_t>(kills))) {
    ASSERT_LT(++kills, 1000);
  }
  EXPECT_GT(kills, 0);
  EXPECT_EQ(Contents("parts"), Contents("whole"));
}

}  // namespace
}  // namespace folio
