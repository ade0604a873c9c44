// Data sets that several ranks make together are those of one.
#include <gtest/gtest.h>

#include <filesystem>

#include "folio/corpus/pieces.h"
#include "folio/corpus/prepare.h"
#include "tests/kit/compressed.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/thread_ranks.h"

namespace folio {
namespace {

class PrepareOnRanks : public InTemporaryDirectory {
 protected:
  PrepareOnRanks() {
    std::string text, lines;
    for (int i = 0; i < 3000; ++i) {
      text += "a small t\u00E9xt, number " + std::to_string(i) + "\n";
      lines += R"({"text":"line )" + std::to_string(i * i) + "\"}\n";
    }
    PutFile("a.txt", text);
    PutFile("b.jsonl", lines);
    PutFile("c.gz", Compressed(text, "gzip"));
    PutFile("d.txt", "");
  }

  // Small pieces, so that each rank has many.
  PrepareOptions Options(const std::string& tokenizer, const std::string& out) const {
    PrepareOptions options;
    for (const char* name : {"a.txt", "b.jsonl", "c.gz", "d.txt"}) {
      options.files.push_back(At(name).string());
    }
    options.tokenizer = tokenizer;
    options.out = At(out).string();
    options.piece_bytes = 1000;
    options.checkpoint_bytes = 5000;
    return options;
  }

  // Calls f(options) on the first of so many ranks; the others help.
  void On(int ranks, PrepareOptions options, const std::function<void(PrepareOptions&)>& f) {
    RunOnThreads(ranks, [&](Group& group) {
      if (!group.first()) return PrepareAsWorker(group);
      Workers workers(&group);
      options.workers = &workers;
      f(options);
      helped_ = group.traffic().bytes_sent;
    });
  }

  uint64_t helped_ = 0;  // bytes that the first rank has sent
};

TEST_F(PrepareOnRanks, TheBytesAreThoseOfOne) {
  for (const char* tokenizer : {"char", "bytes"}) {
    PrepareDataset(Options(tokenizer, "one"));
    for (const int ranks : {2, 3, 5}) {
      On(ranks, Options(tokenizer, "ranks"), [](auto& options) { PrepareDataset(options); });
      EXPECT_EQ(FilesBelow(At("ranks")), FilesBelow(At("one"))) << tokenizer << " " << ranks;
      EXPECT_GT(helped_, 5000u);  // pieces to count and to encode
      std::filesystem::remove_all(At("ranks"));
    }
    std::filesystem::remove_all(At("one"));
  }
}

TEST_F(PrepareOnRanks, GoesOnWithAnotherNumberOfThem) {
  PrepareDataset(Options("bytes", "one"));
  struct Stop {};
  for (const int ranks : {3, 1, 2}) {
    On(ranks, Options("bytes", "parts"), [&](auto& options) {
      PrepareHooks hooks;
      int64_t begun = -1;
      hooks.progress = [&](int64_t done, int64_t total) {
        if (begun < 0 && done > total / 2) begun = done;
        if (begun >= 0 && done > begun + 30000) throw Stop{};
      };
      EXPECT_THROW(PrepareDataset(options, hooks), Stop) << ranks;
    });
  }
  On(4, Options("bytes", "parts"), [](auto& options) { PrepareDataset(options); });
  EXPECT_EQ(FilesBelow(At("parts")), FilesBelow(At("one")));
}

// Wherever in the text it is.
TEST_F(PrepareOnRanks, TheFirstMistakeIsTold) {
  PrepareOptions options = Options("bytes", "out");
  options.special = "raise";
  for (const int line : {10, 700, 2900}) {
    std::string text = ReadFile(At("a.txt"));
    const std::string mark = "number " + std::to_string(line) + "\n";
    text.replace(text.find(mark), 0, "<|endoftext|>");
    text += "<|endoftext|>";
    PutFile("e.txt", text);
    options.files = {At("e.txt").string()};
    const std::string alone = ErrorOf([&] { PrepareDataset(options); });
    EXPECT_TRUE(Contains(alone, "e.txt:" + std::to_string(line + 1))) << alone;
    On(4, options,
       [&](auto& with_ranks) { EXPECT_EQ(ErrorOf([&] { PrepareDataset(with_ranks); }), alone); });
    EXPECT_FALSE(std::filesystem::exists(At("out")));
    EXPECT_FALSE(std::filesystem::exists(At(".out.partial")));
  }
}

// A worker that is given what is not there, as on a machine with other disks.
TEST_F(PrepareOnRanks, WhereOneDoesNotSeeTheFilesTheFirstIsAlone) {
  PrepareSource source(At("a.txt").string());
  std::string why;
  RunOnThreads(2, [&](Group& group) {
    if (!group.first()) return PrepareAsWorker(group);
    Workers workers(&group);
    PieceRanks ranks(&workers);
    EXPECT_EQ(ranks.Open({&source, 1}, {}), "");
    EXPECT_EQ(ranks.size(), 2);
    PutFile("a.txt", "another");
    why = ranks.Open({&source, 1}, {});
    EXPECT_EQ(ranks.size(), 1);
  });
  EXPECT_TRUE(Contains(why, "rank 1 (", "reads other data for", "a.txt than the first rank"))
      << why;
}

}  // namespace
}  // namespace folio
