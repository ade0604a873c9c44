// These tests look at which text is held out.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "folio/base/strings.h"
#include "folio/corpus/prepare.h"
#include "folio/data/test_tokens.h"
#include "folio/text/tokenizer.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

class HeldOutText : public InTemporaryDirectory {
 protected:
  // The two parts as text.
  struct Parts {
    std::string train, val;
    DatasetInfo info;
  };

  Parts Prepare(const std::vector<std::string>& files, const PrepareOptions& more = {}) {
    PrepareOptions options = more;
    for (const std::string& file : files) options.files.push_back(At(file).string());
    options.out = At("out").string();
    options.overwrite = true;
    PrepareDataset(options);
    const Dataset data(options.out);
    EXPECT_TRUE(data.Verify());
    const auto tokenizer = LoadTokenizer(options.out);
    return {tokenizer->Decode(ReadTokens(data.train())), tokenizer->Decode(ReadTokens(data.val())),
            data.info()};
  }

  // So many lines of one letter.
  static std::string Lines(char letter, int lines) {
    std::string text;
    for (int i = 0; i < lines; ++i) text += std::string(39 + i % 11, letter) + "\n";
    return text;
  }
};

std::map<char, double> CountLetters(const std::string& text) {
  std::map<char, double> counts;
  for (const char c : text) counts[c] += 1;
  return counts;
}

TEST_F(HeldOutText, OfAConcatenationIsOfEachOfItsParts) {
  std::string text;
  for (char letter = 'a'; letter < 'k'; ++letter) text += Lines(letter, 400);
  WriteFileAtomically(At("a.txt"), text);
  const Parts spread = Prepare({"a.txt"});
  EXPECT_EQ(spread.info.val_blocks, std::ssize(text) / 10 / 512);
  EXPECT_EQ(spread.info.WhereHeldOut(),
            fmt::format("{} blocks spread over the text", spread.info.val_blocks));
  auto all = CountLetters(text), held_out = CountLetters(spread.val);
  for (const auto& [letter, count] : all) {
    EXPECT_NEAR(held_out[letter] / count, 0.1, 0.07) << letter;
  }
  EXPECT_NEAR(static_cast<double>(spread.val.size()) / static_cast<double>(text.size()), 0.1, 0.01);
  // Nothing is lost, none is in both, and blocks are of whole lines.
  std::vector<std::string> lines = Split(text, '\n'), both = Split(spread.train, '\n');
  for (const std::string& line : Split(spread.val, '\n')) both.push_back(line);
  EXPECT_EQ(spread.train.size() + spread.val.size(), text.size());
  both.erase(std::ranges::find(both, ""));  // behind the last line of the other part
  std::ranges::sort(lines);
  std::ranges::sort(both);
  EXPECT_EQ(both, lines);

  const Parts tail = Prepare({"a.txt"}, {.val_split = "tail"});
  EXPECT_EQ(tail.train + tail.val, text);
  EXPECT_EQ(tail.val.size(), text.size() - text.size() * 9 / 10);
  EXPECT_EQ(CountLetters(tail.val).size(), 2u);  // the last letter and the line break
  EXPECT_EQ(tail.info.val_blocks, 1);
  EXPECT_EQ(tail.info.WhereHeldOut(), "the end of the text");
}

TEST_F(HeldOutText, IsMadeOfWholeDocumentsWhereTheseAreShort) {
  std::string lines, one_file;
  std::vector<std::string> documents;
  for (int i = 0; i < 2000; ++i) {
    documents.push_back(fmt::format("document {} {}", i, std::string(i % 60, 'x')));
    lines += fmt::format("{{\"text\": \"{}\"}}\n", documents.back());
  }
  WriteFileAtomically(At("a.jsonl"), lines);
  Strings files = {"a.jsonl"};
  for (int i = 0; i < 40; ++i) {
    files.push_back(fmt::format("file{}.txt", i));
    documents.push_back(fmt::format("file {}\n{}", i, Lines('y', 5)));
    WriteFileAtomically(At(files.back()), documents.back());
  }
  for (const int64_t piece_bytes : {0, 100}) {
    const Parts parts = Prepare(files, {.tokenizer = "bytes", .piece_bytes = piece_bytes});
    EXPECT_GT(parts.info.val_blocks, 5);
    std::vector<std::string> found;
    for (const std::string* part : {&parts.train, &parts.val}) {
      std::string rest = *part;
      const std::string border = "<|endoftext|>";
      for (size_t end; (end = rest.find(border)) != rest.npos;) {
        if (end > 0) found.push_back(rest.substr(0, end));
        rest.erase(0, end + border.size());
      }
      found.push_back(rest);
    }
    std::vector<std::string> expected = documents;
    std::ranges::sort(found);
    std::ranges::sort(expected);
    EXPECT_EQ(found, expected);
    // The files have a share in it, too, and so have the first and the last lines.
    EXPECT_TRUE(Contains(parts.val, "document 19", "file ", "document 1"));
    EXPECT_NEAR(static_cast<double>(parts.val.size()),
                0.1 * static_cast<double>(parts.val.size() + parts.train.size()),
                0.01 * static_cast<double>(parts.train.size()));
  }
}

// Also where one document is longer than many blocks, as a file or in a line of JSON.
TEST_F(HeldOutText, DoesNotDependOnTheSizesOfPieces) {
  std::string text, line = "{\"text\": \"";
  for (int i = 0; i < 1500; ++i) {
    text += fmt::format("n\u00E4chste {}{}", i * i, i % 90 == 0 ? "\n" : " ");
    line += fmt::format("\u20AC{}{}", i, i % 7 == 0 ? "\\n" : " ");
  }
  WriteFileAtomically(At("a.txt"), text);
  WriteFileAtomically(At("b.jsonl"),
                      "{\"text\": \"short\"}\n" + line + "\"}\n\n{\"text\": \"\"}\n");
  WriteFileAtomically(At("c.txt"), "");
  for (const char* tokenizer : {"char", "bytes"}) {
    for (const double fraction : {0.1, 0.4, 0.85}) {
      const Strings files = {"a.txt", "b.jsonl", "c.txt", "a.txt"};
      PrepareOptions options{.tokenizer = tokenizer, .val_fraction = fraction};
      const Parts expected = Prepare(files, options);
      EXPECT_GT(expected.info.val_blocks, 2);
      const auto made = FilesBelow(At("out"));
      for (const int64_t piece_bytes : {7, 1000, 9999}) {
        options.piece_bytes = piece_bytes;
        Prepare(files, options);
        EXPECT_EQ(FilesBelow(At("out")), made) << tokenizer << " " << fraction << piece_bytes;
      }
    }
  }
}

TEST_F(HeldOutText, OfAShortTextIsItsEnd) {
  WriteFileAtomically(At("a.txt"), Lines('a', 200));
  const Parts parts = Prepare({"a.txt"});
  EXPECT_EQ(parts.train + parts.val, Lines('a', 200));
  EXPECT_EQ(parts.info.val_blocks, 1);
  EXPECT_EQ(Prepare({"a.txt"}, {.val_fraction = 0}).info.val_blocks, 0);
}

TEST_F(HeldOutText, ConversationsAreSpreadToo) {
  std::string lines;
  for (int i = 0; i < 40; ++i) {
    lines += fmt::format(R"({{"messages":[{{"role":"user","content":"q{0}."}},)"
                         R"({{"role":"assistant","content":"a"}}]}})"
                         "\n",
                         i);
  }
  WriteFileAtomically(At("a.jsonl"), lines);
  const Parts spread = Prepare({"a.jsonl"});
  for (const int i : {9, 19, 29, 39}) {
    EXPECT_TRUE(Contains(spread.val, fmt::format("q{}.", i))) << spread.val;
  }
  EXPECT_FALSE(Contains(spread.val, "q38."));
  EXPECT_EQ(spread.info.val_blocks, 4);
  EXPECT_EQ(spread.info.WhereHeldOut(), "every so many conversations");
  const Parts tail = Prepare({"a.jsonl"}, {.val_split = "tail"});
  EXPECT_TRUE(Contains(tail.val, "q36.", "q37.", "q38.", "q39."));
}

}  // namespace
}  // namespace folio
