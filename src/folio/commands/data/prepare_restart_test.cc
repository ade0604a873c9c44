#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <utility>

#include "folio/corpus/prepare.h"
#include "folio/io/file.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/program.h"
#include "tests/kit/sanitized.h"

namespace folio {
namespace {

struct Stop {};

class PrepareRestart : public InTemporaryDirectory {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 3000; ++i) text += "line " + std::to_string(i * i) + " \u20AC\n";
    PutFile("a.txt", text);
    PutFile("b.txt", "");
    std::string lines;
    for (int i = 0; i < 500; ++i) lines += "{\"text\": \"document " + std::to_string(i) + "\"}\n";
    PutFile("c.jsonl", lines);
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

  // Runs until this many bytes are processed; returns true if it finished.
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

  // A note that no token separates documents may follow the expected one.
  bool LastNotesSay(const std::string& text) const {
    const size_t last = notes_.size() - std::min<size_t>(notes_.size(), 2);
    return std::any_of(notes_.begin() + static_cast<ptrdiff_t>(last), notes_.end(),
                       [&](const std::string& note) { return Contains(note, text); });
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
      EXPECT_TRUE(LastNotesSay("continuing where an earlier run stopped"));
      EXPECT_EQ(FilesBelow(At("parts")), FilesBelow(At("whole")))
          << tokenizer << " " << shard_tokens;
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

// A kill leaves more in the files than in the last checkpoint.
TEST_F(PrepareRestart, WhatWasWrittenAfterTheCheckpointIsCutOff) {
  const PrepareOptions options = Options("bytes", "out");
  ASSERT_FALSE(RunUntil(options, 100000));
  for (const char* name : {"train.bin", "val.bin"}) {
    std::ofstream(At(std::string(".out.partial/") + name), std::ios::app) << "torn of";
  }
  EXPECT_TRUE(RunUntil(options, int64_t{1} << 40));
  PrepareDataset(Options("bytes", "whole"));
  EXPECT_EQ(FilesBelow(At("out")), FilesBelow(At("whole")));
}

TEST_F(PrepareRestart, WhatIsNotTheSameBeginsAgain) {
  const PrepareOptions good = Options("bytes", "out");
  PrepareDataset(Options("bytes", "whole"));
  // Started with other options, or with files that have changed since.
  const auto begins_again = [&](const std::string& because,
                                const std::function<void(PrepareOptions&)>& change,
                                const std::function<void()>& between = {}) {
    PrepareOptions first = good;
    if (change) change(first);
    ASSERT_FALSE(RunUntil(first, 100000));
    if (between) between();
    notes_.clear();
    ASSERT_TRUE(RunUntil(good, int64_t{1} << 40));
    ASSERT_EQ(notes_.size(), 1u) << because;
    EXPECT_TRUE(Contains(notes_[0], because, "): starting again"));
    EXPECT_EQ(FilesBelow(At("out")), FilesBelow(At("whole"))) << because;
    std::filesystem::remove_all(At("out"));
  };
  begins_again("another tokenizer", [](auto& other) { other.tokenizer = "char"; });
  begins_again("another val-fraction", [](auto& other) { other.val_fraction = 0.04; });
  begins_again("another special", [](auto& other) { other.special = "allow"; });
  begins_again("another shard-tokens", [](auto& other) { other.shard_tokens = 10000; });
  begins_again("another text", [](auto& other) { std::swap(other.files[0], other.files[1]); });
  begins_again("another text", {}, [&] {
    const auto time = std::filesystem::last_write_time(At("a.txt"));
    std::filesystem::last_write_time(At("a.txt"), time + std::chrono::seconds(1));
  });
  const auto progress = At(".out.partial/progress.json");
  begins_again("cannot be read", {}, [&] { std::filesystem::remove(progress); });
  begins_again("cannot be read", {}, [&] { WriteFileAtomically(progress, "{}"); });
  // Names and numbers that lead out of the directory, or nowhere.
  for (const auto& change : {std::pair{"\"finished\":[", "\"finished\":[[\"../a.txt\",1,\"\"],"},
                             {"\"tokens\":", "\"tokens\":-"},
                             {"\"tokens\":", "\"tokens\":9000000000000000000,\"others\":"}}) {
    const std::string_view from = change.first, to = change.second;
    begins_again("cannot be read", {}, [&] {
      std::string journal = ReadFile(progress);
      const size_t at = journal.find(from);
      ASSERT_NE(at, journal.npos) << journal;
      journal.replace(at, from.size(), to);
      if (journal.find(",],") != journal.npos) journal.replace(journal.find(",],"), 1, "");
      WriteFileAtomically(progress, journal);
    });
  }
  begins_again("train.bin", {}, [&] { PutFile(".out.partial/train.bin", ""); });
}

TEST_F(PrepareRestart, ACharacterSetThatWasTamperedWithIsNotTrusted) {
  const PrepareOptions options = Options("char", "out");
  ASSERT_FALSE(RunUntil(options, 100000));
  std::filesystem::remove(At(".out.partial/tokenizer.json"));
  ASSERT_TRUE(RunUntil(options, int64_t{1} << 40));
  EXPECT_TRUE(LastNotesSay("): starting again"));
  PrepareDataset(Options("char", "whole"));
  EXPECT_EQ(FilesBelow(At("out")), FilesBelow(At("whole")));
}

TEST_F(PrepareRestart, TwoProcessesDoNotMakeTheSame) {
  const PrepareOptions options = Options("bytes", "out");
  PrepareHooks hooks;
  bool tried = false;
  hooks.progress = [&](int64_t done, int64_t total) {
    if (tried || done <= total / 2) return;
    tried = true;
    EXPECT_TRUE(Contains(ErrorOf([&] { PrepareDataset(options); }, ErrorKind::kRuntime),
                         "another process is writing it"));
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

// The data set exists, and so does the directory in which it grew.
TEST_F(PrepareRestart, KilledBeforeItClearedUpTheNextCallDoes) {
  const PrepareOptions options = Options("bytes", "out");
  ASSERT_TRUE(RunUntil(options, int64_t{1} << 40));
  const auto whole = FilesBelow(At("out"));
  const auto leave = [&](bool linked) {
    std::filesystem::create_directory(At(".out.partial"));
    PutFile(".out.partial/progress.json", "{}");
    if (linked) std::filesystem::create_hard_link(At("out/val.bin"), At(".out.partial/val.bin"));
    if (!linked) PutFile(".out.partial/handed-over", "");
  };
  for (const bool linked : {true, false}) {
    leave(linked);
    EXPECT_TRUE(Contains(ErrorOf([&] { PrepareDataset(options); }, ErrorKind::kUsage),
                         ": already contains a data set"));
    EXPECT_EQ(Names(), (Strings{"a.txt", "b.txt", "c.jsonl", "out"}));
    EXPECT_EQ(FilesBelow(At("out")), whole);
  }
  // New data that will replace it stay.
  PrepareOptions other = Options("bytes", "out");
  other.overwrite = true;
  other.val_fraction = 0.1;
  EXPECT_FALSE(RunUntil(other, 100000));
  ErrorOf([&] { PrepareDataset(options); }, ErrorKind::kUsage);
  EXPECT_TRUE(std::filesystem::exists(At(".out.partial/train.bin")));
}

TEST_F(PrepareRestart, KilledItGoesOnToTheSame) {
  {
    std::ofstream big(At("big.txt"), std::ios::binary);
    const std::string text = ReadFile(At("a.txt"));
    for (int i = 0; i < 1700; ++i) big << text;  // more than one checkpoint
  }
  // Kills the program when the growing directory has this many bytes; returns true if its data
  // existed before.
  const auto run_and_kill = [&](const std::string& out, size_t bytes) {
    const ProgramRun run = RunShell(
        At(""), "$F data prepare big.txt --tokenizer bytes --out " + out +
                    " --quiet --no-config & while kill -0 $! 2>/dev/null; do [ $(stat -c %s ." +
                    out + ".partial/train.bin 2>/dev/null || echo 0) -lt " + std::to_string(bytes) +
                    " ] || kill -9 $! 2>/dev/null; done; wait $!");
    EXPECT_TRUE(run.status == 0 || run.status == 128 + SIGKILL) << run.status << run.err;
    return run.status == 0 || std::filesystem::exists(At(out));  // it may be killed as it ends
  };
  ASSERT_TRUE(run_and_kill("whole", size_t{1} << 40));
  constexpr size_t kStep = kSanitized ? 40'000'000 : 8'000'000;
  size_t kills = 0;
  while (!run_and_kill("parts", 60'000'000 + kStep * kills)) ASSERT_LT(++kills, 1000u);
  EXPECT_GT(kills, 0);
  EXPECT_EQ(FilesBelow(At("parts")), FilesBelow(At("whole")));
}

}  // namespace
}  // namespace folio
