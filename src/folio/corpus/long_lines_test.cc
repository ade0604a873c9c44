// Lines of JSON, cells of tables and packed texts that are much longer than anybody expects.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "folio/base/machine.h"
#include "folio/base/thread_pool.h"
#include "folio/corpus/prepare.h"
#include "folio/corpus/text_stream.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "tests/kit/compressed.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/threads.h"

namespace folio {
namespace {

// The bytes that this process has read through system calls, if the system counts them.
std::optional<int64_t> BytesRead() {
  std::ifstream counts("/proc/self/io");
  std::string name;
  int64_t bytes = 0;
  if (counts >> name >> bytes && name == "rchar:") return bytes;
  return std::nullopt;
}

std::string Words(size_t bytes) {
  std::string text;
  for (int i = 0; text.size() < bytes; ++i) {
    text += fmt::format("word{} \u20AC{}", i, i % 11 == 0 ? "\n" : " ");
  }
  return text;
}

class LongLines : public InTemporaryDirectory {
 protected:
  DatasetInfo Prepare(const std::string& file, const std::string& out,
                      PrepareOptions options = {.tokenizer = "bytes"}) {
    options.files = {At(file).string()};
    options.out = At(out).string();
    options.overwrite = true;
    return PrepareDataset(options);
  }

  // The tokens of both parts.
  std::vector<std::string> Tokens(const std::string& out) {
    return {ReadFile(At(out + "/train.bin")), ReadFile(At(out + "/val.bin"))};
  }
};

TEST_F(LongLines, AreReadAFewTimesHoweverManyBlocksAreHeldOut) {
  if (!BytesRead()) GTEST_SKIP() << "the system does not count what is read";
  PutFile("a.jsonl", Json{{"text", Words(2'000'000)}}.dump() + "\n");
  PutFile("b.csv", "text\n\"" + Words(2'000'000) + "\"\n");
  const KeptThreads kept;
  for (const int threads : {1, 3}) {
    SetThreads(threads);
    for (const char* file : {"a.jsonl", "b.csv"}) {
      const int64_t before = *BytesRead();
      EXPECT_EQ(Prepare(file, "out").val_blocks, 64);
      const int64_t bytes = static_cast<int64_t>(ReadFile(At(file)).size());
      EXPECT_LT(*BytesRead() - before, 12 * bytes) << file;
    }
  }
}

TEST_F(LongLines, GiveTheTokensOfThePlainText) {
  const std::string text = Words(3'000'000);
  PutFile("a.txt", text);
  PutFile("a.jsonl", Json{{"text", text}}.dump() + "\n");
  for (const double held_out : {0.0, 0.1, 0.7}) {
    for (const int64_t piece_bytes : {0, 100'000}) {
      const PrepareOptions options{
          .tokenizer = "bytes", .val_fraction = held_out, .piece_bytes = piece_bytes};
      Prepare("a.txt", "plain", options);
      Prepare("a.jsonl", "line", options);
      EXPECT_EQ(Tokens("line"), Tokens("plain")) << held_out << " " << piece_bytes;
    }
  }
}

TEST_F(LongLines, ManyTakeTheMemoryOfAFew) {
  if (!ResetPeakMemory()) GTEST_SKIP() << "the system does not reset it";
  const KeptThreads kept;
  SetThreads(2);
  const std::string line = Json{{"text", Words(4'000'000)}}.dump() + "\n";
  const auto peak = [&](int lines) {
    const std::string name = fmt::format("{}.jsonl", lines);
    {
      AtomicFile file(At(name));
      for (int i = 0; i < lines; ++i) file.Write(line);
      file.Commit();
    }
    ResetPeakMemory();
    Prepare(name, "out", {.tokenizer = "bytes", .piece_bytes = 1000});
    return static_cast<int64_t>(PeakMemoryBytes());
  };
  const int64_t most = peak(8) + 10 * std::ssize(line);
  int64_t of_many = peak(48);
  // A thread that the system stops for a while holds more of them; all would take more every time.
  for (int again = 0; again < 2 && of_many >= most; ++again) of_many = peak(48);
  EXPECT_LT(of_many, most);
}

TEST_F(LongLines, OfMoreValuesThanAnyDocumentAreRefused) {
  std::string line = "{\"text\": \"a\", \"more\": [0";
  for (size_t i = 0; i < kMostValuesOfLine; ++i) line += ",0";
  PutFile("a.jsonl", line + "]}\n");
  EXPECT_TRUE(Contains(ErrorOf([&] { Prepare("a.jsonl", "out"); }, ErrorKind::kInput),
                       "a.jsonl:1: not valid JSON", "at most"));
  EXPECT_FALSE(std::filesystem::exists(At("out")));
}

TEST_F(LongLines, ThatAreConversationsAreKnownHoweverLongTheFirstIs) {
  const auto line = [](size_t bytes) {
    return Json{{"prompt", Words(bytes)}, {"completion", "yes"}}.dump() + "\n";
  };
  PutFile("a.jsonl", line(3'000'000) + line(10));
  PutFile("a.csv", "prompt,completion\n\"" + Words(3'000'000) + "\",yes\nq,no\n");
  for (const char* file : {"a.jsonl", "a.csv"}) {
    const DatasetInfo info = Prepare(file, "out");
    EXPECT_TRUE(info.chat.has_value()) << file;
    EXPECT_EQ(info.documents, 2) << file;
  }
}

class LongTexts : public InTemporaryDirectory {
 protected:
  // Reads a whole file as text; returns its bytes.
  int64_t Read(const std::string& file) {
    TextStream stream(At(file).string(), {});
    int64_t bytes = 0;
    for (std::string piece; stream.Read(piece, 1 << 20) > 0; piece.clear()) {
      bytes += std::ssize(piece);
    }
    return bytes;
  }
};

// A file of half a megabyte would take the whole disk, or the whole day.
TEST_F(LongTexts, OfWhatIsPackedTooWellAreRefusedBeforeTheDiskIsFull) {
  const std::string much(140 << 20, 'a');
  for (const char* how : {"gzip", "xz", "zstd"}) {
    PutFile("a", Compressed(much, how));
    EXPECT_TRUE(Contains(ErrorOf([&] { Read("a"); }, ErrorKind::kInput),
                         "a: decompressed, it is more than 250 times as long"))
        << how;
  }
  PutFile("a", Compressed(Compressed(much, "gzip"), "gzip"));
  EXPECT_TRUE(Contains(ErrorOf([&] { Read("a"); }, ErrorKind::kInput), "250 times as long"));
  // A header that each row repeats.
  std::string table = std::string(1 << 16, 'h') + "\n";
  for (int i = 0; i < 2400; ++i) table += "x\n";
  PutFile("a.csv", table);
  EXPECT_TRUE(Contains(ErrorOf([&] { Read("a.csv"); }, ErrorKind::kInput), "250 times as long"));
  // Nothing of it stays on the disk.
  PrepareOptions options{.files = {At("a").string()}, .tokenizer = "bytes"};
  options.out = At("out").string();
  EXPECT_TRUE(Contains(ErrorOf([&] { PrepareDataset(options); }, ErrorKind::kInput), "250 times"));
  EXPECT_EQ(Names(), (Strings{"a", "a.csv"}));
}

TEST_F(LongTexts, ThatAreCompressedWellAreTexts) {
  std::string log;
  for (int i = 0; log.size() < (140 << 20); ++i) {
    log += fmt::format("2026-01-01T00:00:{:02} INFO server: GET /index.html 200 in 3 ms\n", i % 60);
  }
  const std::string packed = Compressed(log, "gzip");
  EXPECT_GT(log.size(), 100 * packed.size());  // the best that texts do
  PutFile("a.gz", packed);
  EXPECT_EQ(Read("a.gz"), std::ssize(log));
  // Short ones may be anything.
  PutFile("b.gz", Compressed(std::string(100 << 20, ' '), "gzip"));
  EXPECT_EQ(Read("b.gz"), 100 << 20);
}

}  // namespace
}  // namespace folio
