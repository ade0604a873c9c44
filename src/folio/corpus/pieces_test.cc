#include "folio/corpus/pieces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "folio/base/utf8.h"
#include "folio/io/file.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/test_vocab.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

class Pieces : public InTemporaryDirectory {
 protected:
  PrepareSource Source(const std::string& name, const std::string& text) {
    PutFile(name, text);
    const bool lines = name.ends_with(".jsonl");
    return PrepareSource(At(name).string(), {.raw = !lines});
  }

  // All pieces, of which each but the last must be at least `piece_bytes` long where nothing else
  // ends it.
  static std::vector<PreparePiece> Cut(std::span<const PrepareSource> sources, const CutRule& rule,
                                       int64_t piece_bytes, std::vector<PrepareSplit> splits = {},
                                       PreparePlace begin = {}) {
    PieceCutter cutter(sources, rule, piece_bytes, splits, begin);
    std::vector<PreparePiece> pieces;
    while (const auto piece = cutter.Next()) pieces.push_back(*piece);
    EXPECT_EQ(cutter.place().source, sources.size());
    return pieces;
  }

  static std::string Bytes(const PrepareSource& source, const PreparePiece& piece) {
    std::string bytes;
    source.Read(piece.begin.offset, piece.end, bytes);
    return bytes;
  }
};

TEST_F(Pieces, CoverAllBytesOnceAndEndWhereTheyMay) {
  TestRng rng(1);
  const std::vector<PrepareSource> sources = {
      Source("a", RandomText(AwkwardParts(), 1000, rng)), Source("b", ""),
      Source("c", RandomText(AwkwardParts(), 300, rng)), Source("d.jsonl", "{}\n\n{}\n{}")};
  const BpeTokenizer bpe(TrainedOn("the the house is the house", {.vocab_size = 280}));
  const CutRule rule(bpe, true);
  const std::vector<PrepareSplit> splits = {{.source = 0, .offset = 700},
                                            {.source = 0, .offset = 700},
                                            {.source = 1, .offset = 0},
                                            {.source = 2, .offset = 301}};
  for (const int64_t piece_bytes : {1, 2, 100, 4000, 100000}) {
    PreparePlace next;
    for (const PreparePiece& piece : Cut(sources, rule, piece_bytes, splits)) {
      ASSERT_EQ(piece.begin.source, next.source);
      ASSERT_EQ(piece.begin.offset, next.offset);
      const auto passed = std::ranges::count_if(splits, [&](const PrepareSplit& split) {
        return std::pair(split.source, split.offset) <= std::pair(next.source, next.offset);
      });
      EXPECT_EQ(piece.begin.part, passed);
      next = piece.begin;
      next.offset = piece.end;
      const bool source_ends = piece.end == sources[next.source].bytes();
      const bool split_ends = std::ranges::any_of(splits, [&](const PrepareSplit& split) {
        return next.source == split.source && piece.end == split.offset;
      });
      if (!source_ends && !split_ends) {
        EXPECT_GE(piece.end - piece.begin.offset, piece_bytes);
      }
      if (next.source == 3) {
        EXPECT_EQ(Bytes(sources[3], piece).back(), source_ends ? '}' : '\n');
      }
      if (source_ends) next = {next.source + 1, 0};
    }
    EXPECT_EQ(next.source, sources.size());
  }
}

// The longest thing between two cuts is longer than what is looked at in one go.
TEST_F(Pieces, WhatCannotBeCutStaysWhole) {
  const std::string run(100003, 'a');
  const std::vector<PrepareSource> sources = {Source("a", "b b b" + run + " " + run)};
  const BpeTokenizer bpe(TrainedOn("", {.vocab_size = 257}));
  const auto pieces = Cut(sources, CutRule(bpe, false), 5);
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[1].begin.offset, 5 + 100003);
}

// However the characters lie at the ends of what is looked at in one go.
TEST_F(Pieces, ALineThatIsLongerThanAnyDocumentIsRefused) {
  const auto cut = [&](size_t bytes) {
    const std::vector<PrepareSource> sources = {
        Source("a.jsonl", "{\"text\":\"\"}\n{\"text\":\"" + std::string(bytes, 'a') + "\"}\n")};
    const CutRule rule;
    PieceCutter cutter(sources, rule, 10, {}, {}, /*longest_line=*/100'000);
    while (cutter.Next()) {
    }
  };
  cut(50'000);
  EXPECT_TRUE(Contains(ErrorOf([&] { cut(200'000); }, ErrorKind::kInput),
                       "a.jsonl: a line is too long", "at most 100000"));
}

TEST_F(Pieces, HalfACharacterIsNoReasonToCut) {
  const BpeTokenizer bpe(TrainedOn("", {.vocab_size = 257}));
  for (const std::string character : {"\u00E9", "\u4F60", "\U00010400"}) {
    for (size_t shift = 0; shift < character.size(); ++shift) {
      std::string text(shift, 'a');
      while (text.size() < 70000) text += character;
      const std::vector<PrepareSource> sources = {Source("a", text)};
      EXPECT_EQ(Cut(sources, CutRule(bpe, false), 5).size(), 1u) << character << " " << shift;
    }
  }
}

TEST_F(Pieces, SpecialTokensAreNotTornWhereverTheyStand) {
  const std::string special = "<|endoftext|>";
  const ByteTokenizer bytes;
  const CutRule rule(bytes, true);
  for (int64_t before = 0; before < 40; ++before) {
    const std::string text =
        std::string(static_cast<size_t>(before), '<') + special + special + "|>";
    const std::vector<PrepareSource> sources = {Source("a", text)};
    std::string all;
    for (const PreparePiece& piece : Cut(sources, rule, 3)) {
      const int64_t end = piece.end;
      const auto inside = [&](int64_t begin) {
        return end > begin && end < begin + std::ssize(special);
      };
      EXPECT_FALSE(inside(before) || inside(before + std::ssize(special))) << before << " " << end;
      all += Bytes(sources[0], piece);
    }
    EXPECT_EQ(all, text);
  }
}

TEST_F(Pieces, ALineThatSplitsCutIsInEachPart) {
  const std::vector<PrepareSource> sources = {Source("a.jsonl", "11\n2222\n333\n")};
  const ByteTokenizer bytes;
  const CutRule rule(bytes, false);
  const PrepareSplit split{.source = 0, .offset = 3, .line_end = 8, .inside = 2};
  PrepareSplit another = split;
  another.inside = 3;
  const std::vector<PrepareSplit> splits = {split, another, {.source = 0, .offset = 8}};
  const auto pieces = Cut(sources, rule, 1, splits);
  ASSERT_EQ(pieces.size(), 5u);
  EXPECT_EQ(Bytes(sources[0], pieces[1]), "2222\n");
  EXPECT_EQ(Bytes(sources[0], pieces[2]), "2222\n");
  EXPECT_FALSE(pieces[1].begin.val());
  EXPECT_EQ(pieces[1].text_end, 2);
  EXPECT_EQ(pieces[1].text_begin, 0);
  EXPECT_TRUE(pieces[2].begin.val());
  EXPECT_EQ(pieces[2].text_begin, 2);
  EXPECT_EQ(pieces[2].text_end, 3);
  EXPECT_EQ(Bytes(sources[0], pieces[3]), "2222\n");
  EXPECT_FALSE(pieces[3].begin.val());
  EXPECT_EQ(pieces[3].text_begin, 3);
  EXPECT_EQ(pieces[3].text_end, -1);
  EXPECT_EQ(Bytes(sources[0], pieces[4]), "333\n");
  EXPECT_TRUE(pieces[4].begin.val());
  // Gone on with from the place of any piece, the same ones follow.
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto rest = Cut(sources, rule, 1, splits, pieces[i].begin);
    ASSERT_EQ(rest.size(), pieces.size() - i);
    EXPECT_EQ(rest[0].end, pieces[i].end);
    EXPECT_EQ(rest[0].text_begin, pieces[i].text_begin);
    EXPECT_EQ(rest[0].text_end, pieces[i].text_end);
  }
}

TEST_F(Pieces, WithoutATokenizerCharactersStayWhole) {
  const std::vector<PrepareSource> sources = {Source("a", "\u20AC\u20ACx\x80\x80\x80y")};
  const auto pieces = Cut(sources, CutRule(), 1);
  ASSERT_EQ(pieces.size(), 4u);
  EXPECT_EQ(pieces[2].end, 10);
}

TEST_F(Pieces, ASourceThatChangesIsNoticed) {
  const PrepareSource source = Source("a", "abcdef");
  source.CheckUnchanged();
  PutFile("a", "abc");
  std::string bytes;
  EXPECT_TRUE(Contains(ErrorOf([&] { source.Read(0, 6, bytes); }), "changed"));
  EXPECT_TRUE(Contains(ErrorOf([&] { source.CheckUnchanged(); }), "changed"));
}

class Documents : public InTemporaryDirectory {
 protected:
  // The documents of a whole file, each behind its offset, and in brackets if it begins here.
  std::vector<std::string> Of(const std::string& name, const std::string& text,
                              PreparePiece piece = {}) {
    PutFile(name, text);
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
    return ErrorOf([&] { Of("bad.jsonl", text); });
  }
};

TEST_F(Documents, APlainFileIsOne) {
  EXPECT_EQ(Of("a.txt", "text: 1\n\n"), (Strings{"0[text: 1\n\n]"}));
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
  EXPECT_TRUE(Contains(Refusal(good + good + "[\"text\"]\n"), "bad.jsonl:3: not a document"));
  EXPECT_TRUE(Contains(Refusal("{\"text\":7}\n"), "bad.jsonl:1: not a document"));
  EXPECT_TRUE(Contains(Refusal("{\"texts\":\"\"}"), "bad.jsonl:1: not a document"));
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
