#include "folio/corpus/documents.h"

#include <gtest/gtest.h>

#include "folio/io/file.h"
#include "folio/text/utf8.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

class Documents : public InTemporaryDirectory {
 protected:
  // The documents of a whole file, each behind its offset, and in brackets if it begins here.
  std::vector<std::string> Of(const std::string& name, const std::string& text,
                              PreparePiece piece = {}) {
    WriteFileAtomically(At(name), text);
    const PrepareSource source(At(name).string());
    if (piece.end == 0) piece.end = source.bytes();
    std::vector<std::string> documents;
    ForDocuments(source, piece,
                 text.substr(static_cast<size_t>(piece.begin.offset),
                             static_cast<size_t>(piece.end - piece.begin.offset)),
                 [&](const PrepareDocument& document) {
                   const std::string shown(document.text);
                   documents.push_back(std::to_string(document.offset) +
                                       (document.begins ? "[" + shown + "]" : shown));
                 });
    return documents;
  }
  std::string Refusal(const std::string& text) {
    return ErrorOf([&] { Of("bad.jsonl", text); }, ErrorKind::kInput);
  }
};

TEST_F(Documents, APlainFileIsOne) {
  EXPECT_EQ(Of("a.txt", "{\"text\":1}\n\n"), (Strings{"0[{\"text\":1}\n\n]"}));
  EXPECT_EQ(Of("a.txt", ""), (Strings{"0[]"}));
  EXPECT_EQ(Of("a.txt", "abc", {.begin = {0, 1}, .end = 3}), (Strings{"1bc"}));
}

TEST_F(Documents, LinesAreOneEachAndBlankOnesNone) {
  EXPECT_EQ(Of("a.jsonl",
               "{\"text\":\"a\\nb\"}\r\n \t\r\n{\"id\":3,\"text\":\"\"}\n{\"text\":\"\\u00e9\"}"),
            (Strings{"0[a\nb]", "21[]", "40[\u00E9]"}));
  EXPECT_EQ(Of("a.jsonl", "\n"), Strings{});
}

TEST_F(Documents, AreCutWhereThePieceSays) {
  const std::string line = "{\"text\":\"abcdef\"}\n";
  EXPECT_EQ(Of("a.jsonl", line, {.begin = {}, .text_end = 2}), (Strings{"0[ab]"}));
  EXPECT_EQ(Of("a.jsonl", line, {.begin = {}, .text_begin = 2}), (Strings{"0cdef"}));
}

TEST_F(Documents, LinesThatAreNoneAreNamed) {
  const std::string good = "{\"text\":\"a\"}\n";
  EXPECT_TRUE(Contains(Refusal(good + "\n{\"text\":\"a\"\n"), "bad.jsonl:3: not valid JSON"));
  EXPECT_TRUE(Contains(Refusal(good + "{\"text\":\"\xFF\"}\n"), "bad.jsonl:2: not valid JSON"));
  EXPECT_TRUE(Contains(Refusal(good + good + "[\"text\"]\n"), "bad.jsonl:3: no document"));
  EXPECT_TRUE(Contains(Refusal("{\"text\":7}\n"), "bad.jsonl:1: no document"));
  EXPECT_TRUE(Contains(Refusal("{\"texts\":\"\"}"), "bad.jsonl:1: no document"));
  EXPECT_TRUE(Contains(Refusal("{\"text\":\"\"} {}"), "bad.jsonl:1: not valid JSON"));
}

TEST(Characters, AreCountedByTheBytesThatBeginThem) {
  std::string text;
  int64_t count = 0;
  while (text.size() < 1000) {
    text += "a\u00E9\u20AC\U0001F600\xFF\x80\x80";
    count += 5;
    EXPECT_EQ(CountCharacters(text), count) << text.size();
  }
  EXPECT_EQ(CountCharacters(std::string(100003, 'x')), 100003);
  EXPECT_EQ(CountCharacters(std::string(100003, '\x80')), 0);
  EXPECT_EQ(FindCharacter("a\u20AC\x80z", 1), 1u);
  EXPECT_EQ(FindCharacter("a\u20AC\x80z", 2), 5u);
  EXPECT_EQ(FindCharacter("a\u20AC\x80z", 3), 6u);
  EXPECT_EQ(FindCharacter("\x80\x80", 0), 2u);
}

}  // namespace
}  // namespace folio
