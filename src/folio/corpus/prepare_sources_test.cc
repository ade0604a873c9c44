// Data sets made of what is not plain text.
#include <gtest/gtest.h>

#include <filesystem>

#include "folio/corpus/prepare.h"
#include "folio/data/test_tokens.h"
#include "folio/text/tokenizer.h"
#include "folio/text/tokenizer_file.h"
#include "tests/kit/compressed.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

class PrepareSources : public InTemporaryDirectory {
 protected:
  PrepareOptions Options(const std::vector<std::pair<std::string, std::string>>& files,
                         const std::string& out = "out") {
    PrepareOptions options;
    for (const auto& [name, bytes] : files) {
      PutFile(name, bytes);
      options.files.push_back(At(name).string());
    }
    options.tokenizer = "bytes";
    options.out = At(out).string();
    options.overwrite = true;
    return options;
  }

  // The files of a data set but dataset.json, which names the sources.
  std::map<std::string, std::string> Made(const PrepareOptions& options) {
    info_ = PrepareDataset(options);
    auto files = FilesBelow(options.out);
    files.erase("dataset.json");
    return files;
  }

  DatasetInfo info_;
};

std::string Utf16Of(std::string_view ascii) {
  std::string bytes = "\xFF\xFE";
  for (const char c : ascii) bytes += std::string{c, '\0'};
  return bytes;
}

TEST_F(PrepareSources, WhateverATextIsPackedInTheDataIsTheSame) {
  std::string text;
  for (int i = 0; i < 4000; ++i) text += "line " + std::to_string(i * i) + "\n";
  const std::string lines = "{\"text\": \"a\\nb\"}\n\n{\"text\": \"\\u20ac\"}\n";
  const auto plain = Made(Options({{"a.txt", text}, {"b.jsonl", lines}}));
  const DatasetInfo as_plain = info_;
  EXPECT_EQ(as_plain.documents, 3);
  const auto expect_same = [&](const std::string& name, const std::string& one,
                               const std::string& other) {
    EXPECT_EQ(Made(Options({{name, one}, {name + ".lines", other}})), plain) << name;
    EXPECT_EQ(info_.documents, 3);
    EXPECT_EQ(info_.text_bytes, as_plain.text_bytes);
    ASSERT_EQ(info_.sources.size(), 2u);
    EXPECT_EQ(info_.sources[0].path, At(name).string());
    EXPECT_EQ(info_.sources[0].bytes, std::ssize(one));
  };
  for (const char* how : {"gzip", "bzip2", "xz", "zstd"}) {
    expect_same(how, Compressed(text, how), Compressed(lines, how));
  }
  expect_same("utf16", Utf16Of(text), Utf16Of(lines));
  expect_same("json", text, "[{\"text\": \"a\\nb\"},\n\"\\u20ac\"]");
  EXPECT_EQ(std::ranges::count_if(Names(), [](auto& name) { return name.starts_with('.'); }), 0);
}

TEST_F(PrepareSources, AnotherFieldHoldsTheText) {
  PrepareOptions options =
      Options({{"a.ndjson", "{\"text\": 1, \"content\": \"ab\"}\n{\"content\": \"c\"}\n"},
               {"b.json", "[{\"content\": \"d\"}, \"e\"]"}});
  options.field = "content";
  options.val_fraction = 0;
  PrepareDataset(options);
  EXPECT_EQ(ReadTokens(Dataset(options.out).train()),
            (std::vector<int32_t>{'a', 'b', 256, 'c', 256, 'd', 256, 'e'}));
}

TEST_F(PrepareSources, AMissingFieldIsNamedWithItsLineOrValue) {
  const auto refusal = [&](const std::string& name, const std::string& bytes) {
    return ErrorAndHelp([&] { PrepareDataset(Options({{name, bytes}})); });
  };
  const std::string good = "{\"text\": \"a\"}\n";
  EXPECT_TRUE(Contains(refusal("a.jsonl", good + good + "{\"content\": \"b\"}\n"),
                       "a.jsonl:3: not a document", "there is no string \"text\"", "--field"));
  // Perhaps it was meant for a conversation.
  EXPECT_TRUE(Contains(refusal("a.jsonl", "{\"title\": \"a\", \"body\": \"b\"}\n"),
                       "a.jsonl:1: not a document", "no string \"text\", and no conversation",
                       "it has title, body", "a conversation is {\"messages\": [{\"role\"",
                       "{\"prompt\": ", "{\"instruction\": "));
  EXPECT_TRUE(
      Contains(refusal("a.jsonl", "{\"prompt\": \"q\", \"chosen\": \"a\", \"rejected\": \"b\"}\n"),
               "it has prompt, chosen, rejected: preference data"));
  EXPECT_FALSE(Contains(refusal("a.jsonl", "{\"text\": 3}\n"), "conversation"));
  EXPECT_TRUE(Contains(refusal("b.gz", Compressed(good + "{\"text\": 3}\n", "gzip")),
                       "b.gz:2: not a document"));
  EXPECT_TRUE(
      Contains(refusal("c.json", "[\n" + good + ",\n\n{}]"), "c.json: value 2: not a document"));
  EXPECT_TRUE(Contains(refusal("d.json", "[\"a\", tru]"), "d.json: value 2: not valid JSON"));
  EXPECT_EQ(Names(), (Strings{"a.jsonl", "b.gz", "c.json", "d.json"}));
}

TEST_F(PrepareSources, DamageLeavesNothing) {
  const std::string text(3000000, 'a');
  for (const char* how : {"gzip", "bzip2", "xz", "zstd"}) {
    const std::string packed = Compressed(text, how);
    const PrepareOptions options =
        Options({{"a.txt", "plain"}, {"b", packed.substr(0, packed.size() - 5)}});
    EXPECT_TRUE(Contains(ErrorOf([&] { PrepareDataset(options); }), "/b: incomplete", how));
    EXPECT_EQ(Names(), (Strings{"a.txt", "b"})) << how;
  }
  const PrepareOptions options = Options({{"a.txt", "plain"}, {"b", "PAR1\x15PAR1"}});
  EXPECT_TRUE(Contains(ErrorOf([&] { PrepareDataset(options); }), "/b: not a text", "Parquet"));
  EXPECT_EQ(Names(), (Strings{"a.txt", "b"}));
}

TEST_F(PrepareSources, RawBytesAreDataAsTheyAre) {
  const std::string bytes("\x1F\x8B\0\xFF\xFE{\"text\":1}\n", 16);
  PrepareOptions options = Options({{"a.jsonl", bytes}});
  EXPECT_TRUE(Contains(ErrorOf([&] { PrepareDataset(options); }), "binary data"));
  options.raw = true;
  options.val_fraction = 0;
  PrepareDataset(options);
  std::vector<int32_t> ids;
  for (const char c : bytes) ids.push_back(static_cast<uint8_t>(c));
  EXPECT_EQ(ReadTokens(Dataset(options.out).train()), ids);
  options.tokenizer = "char";
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { PrepareDataset(options); }, ErrorKind::kUsage), "--raw",
                       "--tokenizer bytes"));
  options.raw = false;
  options.files = {"-", "-"};
  ErrorOf([&] { PrepareDataset(options); }, ErrorKind::kUsage);
}

struct Stop {};

TEST_F(PrepareSources, StoppedItGoesOnWithWhatWasUnpacked) {
  std::string text;
  for (int i = 0; i < 9000; ++i) text += "line " + std::to_string(i * i) + "\n";
  PrepareOptions options = Options(
      {{"a.gz", Compressed(text, "gzip")}, {"b.txt", text}, {"c.json", "[\"x\", \"y\"]"}}, "whole");
  options.piece_bytes = 1000;
  const auto whole = FilesBelow((Made(options), options.out));
  options.out = At("parts").string();
  int converted = 0;
  std::vector<std::string> notes;
  const auto run_until = [&](int64_t bytes) {
    PrepareHooks hooks;
    hooks.converting = [&](const std::string& path, int64_t) {
      EXPECT_NE(path, At("b.txt").string());
      ++converted;
    };
    hooks.progress = [&](int64_t done, int64_t) {
      if (done >= bytes) throw Stop{};
    };
    hooks.note = [&](const std::string& note) { notes.push_back(note); };
    try {
      PrepareDataset(options, hooks);
    } catch (const Stop&) {
      return false;
    }
    return true;
  };
  const int64_t both = 4 * std::ssize(text);
  ASSERT_FALSE(run_until(both * 3 / 4));
  EXPECT_GT(std::exchange(converted, 0), 0);
  EXPECT_EQ(ReadFile(At(".parts.partial/text_000000")), text);
  ASSERT_TRUE(run_until(2 * both));
  EXPECT_EQ(converted, 0);
  EXPECT_TRUE(Contains(notes.back(), "continuing where an earlier run stopped"));
  EXPECT_EQ(FilesBelow(options.out), whole);
  // A file that was unpacked and is no longer whole is unpacked again.
  for (const bool cut : {false, true}) {
    ASSERT_FALSE(run_until(both * 3 / 4));
    cut ? fs::resize_file(At(".parts.partial/text_000002"), 3)
        : static_cast<void>(fs::remove(At(".parts.partial/text_000000")));
    converted = 0;
    ASSERT_TRUE(run_until(2 * both));
    EXPECT_GT(converted, 0);
    EXPECT_TRUE(Contains(notes.back(), "): starting again"));
    EXPECT_EQ(FilesBelow(options.out), whole);
  }
  // Stopped while it unpacks, there is nothing to go on with.
  PrepareHooks stop;
  stop.converting = [](const std::string&, int64_t) { throw Stop{}; };
  EXPECT_THROW(PrepareDataset(options, stop), Stop);
  EXPECT_EQ(Names(), (Strings{"a.gz", "b.txt", "c.json", "parts", "whole"}));
}

TEST_F(PrepareSources, AByteOrderMarkInAStreamIsNoPartOfTheText) {
  const std::string mark = "\xEF\xBB\xBF";
  PrepareOptions options = Options({{"a", Compressed(mark + "ab" + mark, "xz")}});
  options.val_fraction = 0;
  PrepareDataset(options);
  EXPECT_EQ(LoadTokenizer(options.out)->Decode(ReadTokens(Dataset(options.out).train())),
            "ab" + mark);
}

}  // namespace
}  // namespace folio
