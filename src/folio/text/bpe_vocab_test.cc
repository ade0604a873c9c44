#include "folio/text/bpe_vocab.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "folio/base/utf8.h"
#include "folio/text/test_texts.h"
#include "folio/text/test_vocab.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/sanitized.h"

namespace folio {
namespace {

std::string Refusal(const BpeVocab& vocab) {
  const std::string error = ErrorOf([&] { CheckBpeVocab(vocab, "here"); });
  EXPECT_TRUE(error.starts_with("here: ")) << error;
  return error;
}

// The vocabulary with other bytes for one id.
BpeVocab With(const BpeVocab& vocab, int32_t id, std::string_view bytes) {
  BpeVocab other = vocab;
  other.tokens = {};
  for (size_t i = 0; i < vocab.tokens.size(); ++i) {
    other.tokens.Add(static_cast<int32_t>(i) == id ? bytes : vocab.tokens[i]);
  }
  return other;
}

TEST(ByteNames, AreThoseOfGpt2) {
  const std::pair<uint8_t, char32_t> known[] = {
      {'!', '!'},    {'~', '~'},   {0, 0x100},   {'\n', 0x10A}, {' ', 0x120}, {0x7F, 0x121},
      {0xA0, 0x142}, {0xA1, 0xA1}, {0xAC, 0xAC}, {0xAD, 0x143}, {0xAE, 0xAE}, {0xFF, 0xFF}};
  for (const auto& [byte, code] : known) {
    std::string name;
    AppendUtf8(code, name);
    EXPECT_EQ(ByteNames(std::string(1, static_cast<char>(byte))), name) << int{byte};
  }
  std::set<std::string> names;
  for (int byte = 0; byte < 256; ++byte)
    names.insert(ByteNames(std::string(1, static_cast<char>(byte))));
  EXPECT_EQ(names.size(), 256u);
}

TEST(ByteNames, TheOrderOfIdsIsGpt2s) {
  const std::pair<size_t, uint8_t> known[] = {{0, '!'},    {93, '~'},   {94, 0xA1},  {105, 0xAC},
                                              {106, 0xAE}, {187, 0xFF}, {188, 0x00}, {198, '\n'},
                                              {220, ' '},  {221, 0x7F}, {254, 0xA0}, {255, 0xAD}};
  for (const auto& [id, byte] : known) EXPECT_EQ(Gpt2ByteOrder()[id], byte) << id;
}

TEST(ByteNames, StringsGoThereAndBack) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  std::string bytes = "before";
  EXPECT_TRUE(AppendNamedBytes(ByteNames(all), bytes));
  EXPECT_EQ(bytes, "before" + all);
  EXPECT_EQ(ByteNames(" a\n"), "\u0120a\u010A");
  for (const std::string_view bad :
       {"a b", "a\n", "\u0144", "x\u4E2D", "\xC4", "\xC4z", "\xA9", "\xC1\xA1", "\xE0\x84\xA0",
        "\x7F", "\u00A0", "\u00AD", "\U0001F600"}) {
    bytes = "kept";
    EXPECT_FALSE(AppendNamedBytes(bad, bytes)) << bad;
    EXPECT_EQ(bytes, "kept");
  }
}

TEST(ByteIndex, FindsWhatIsThereAndNothingElse) {
  ByteStrings strings;
  for (size_t length = 1; length <= 40; ++length) {
    for (int fill = 0; fill < 50; ++fill) {
      std::string text(length, static_cast<char>(fill));
      text[static_cast<size_t>(fill) % length] ^= static_cast<char>(0x80);
      strings.Add(text);
    }
  }
  strings.Add("");
  strings.Add("behind");
  const ByteIndex index(strings, strings.size() - 1);
  EXPECT_FALSE(index.twins());
  for (size_t id = 0; id + 2 < strings.size(); ++id) {
    EXPECT_EQ(index.Find(strings[id]), static_cast<int32_t>(id));
    EXPECT_EQ(index.Find(std::string(strings[id]) + "x"), ByteIndex::kNone);
  }
  EXPECT_EQ(index.Find("behind"), ByteIndex::kNone);
  EXPECT_EQ(index.Find(""), ByteIndex::kNone);
  ByteStrings twice;
  for (const char* text : {"one", "two", "one", "two"}) twice.Add(text);
  ASSERT_TRUE(ByteIndex(twice, 4).twins());
  EXPECT_EQ(ByteIndex(twice, 4).twins()->second, 2);
  EXPECT_EQ(ByteIndex(twice, 4).Find("two"), 1);
}

TEST(BpeVocab, WhatIsRightPasses) {
  CheckBpeVocab(SmallVocab(), "here");
  CheckBpeVocab(SmallVocab(true), "here");
  CheckBpeVocab(MakeTestVocab({}, {}), "here");
}

TEST(BpeVocab, RefusesWrongTokens) {
  const BpeVocab good = SmallVocab();
  EXPECT_TRUE(Contains(Refusal({}), "a byte has no token", "0x00"));
  EXPECT_TRUE(Contains(Refusal(With(good, 220, "")), "a byte has no token", "0x20", "\u0120"));
  EXPECT_TRUE(Contains(Refusal(With(good, 256, "ll")), "two tokens are the same", "'ll' (id 256)",
                       "'ll' (id 257)"));
  BpeVocab vocab = good;
  vocab.tokens.Add("");
  EXPECT_TRUE(Contains(Refusal(vocab), "the last id has no token"));
}

TEST(BpeVocab, RefusesWrongSpecialTokens) {
  const BpeVocab good = SmallVocab();
  const auto last = static_cast<int32_t>(good.tokens.size()) - 1;
  BpeVocab vocab = good;
  vocab.specials[0].text = "<|other|>";
  EXPECT_TRUE(Contains(Refusal(vocab), "'<|other|>'", "is not the token with its id"));
  vocab = good;
  for (const int32_t id : {-1, last + 1, INT32_MAX}) {
    vocab.specials[1].id = id;
    EXPECT_TRUE(Contains(Refusal(vocab), "is not the token with its id")) << id;
  }
  vocab = good;
  std::swap(vocab.specials[0], vocab.specials[1]);
  EXPECT_TRUE(Contains(Refusal(vocab), "out of order"));
  vocab = good;
  vocab.specials.push_back(vocab.specials[1]);
  EXPECT_TRUE(Contains(Refusal(vocab), "out of order"));
  vocab = With(good, last, "\xFFxx");
  vocab.specials[1].text = "\xFFxx";
  EXPECT_TRUE(Contains(Refusal(vocab), "is not UTF-8"));
  vocab = With(good, last - 1, "");
  vocab.specials[0].text = "";
  EXPECT_TRUE(Contains(Refusal(vocab), "is empty"));
  vocab = good;
  vocab.specials.insert(vocab.specials.begin(), {"!", 0});
  EXPECT_TRUE(Contains(Refusal(vocab), "a single byte"));
  // Files would have the name of " w" twice.
  vocab = With(good, last, "\u0120w");
  vocab.specials[1].text = "\u0120w";
  EXPECT_TRUE(Contains(Refusal(vocab), "cannot be distinguished from another token"));
}

TEST(BpeVocab, RefusesWrongMerges) {
  const BpeVocab good = SmallVocab();
  const auto merged = [&](BpeMerge merge) {
    BpeVocab vocab = good;
    vocab.merges.push_back(merge);
    return Refusal(vocab);
  };
  const auto ids = static_cast<int32_t>(good.tokens.size());
  EXPECT_TRUE(Contains(merged({-1, 0, 256}), "merge 15", ": id -1 is not an ordinary token"));
  EXPECT_TRUE(Contains(merged({0, ids, 256}), "merge 15", "is not an ordinary token"));
  EXPECT_TRUE(Contains(merged({0, 1, INT32_MIN}), "merge 15", "is not an ordinary token"));
  EXPECT_TRUE(Contains(merged({ids - 1, 0, 256}), "is not an ordinary token"));
  EXPECT_TRUE(Contains(merged({0, 1, 256}), "together are not 'he'"));
  EXPECT_TRUE(Contains(merged({256, 256, 256}), "together are not 'he'"));
  EXPECT_TRUE(Contains(merged(good.merges[0]), "merge 15 appears twice", "'h'"));
  // Two pairs that make one token are allowed; repeating either is not.
  BpeVocab vocab = MakeTestVocab({{"a", "b"}, {"b", "c"}, {"ab", "c"}}, {});
  vocab.merges.push_back({static_cast<int32_t>('a' - '!'), 257, 258});
  CheckBpeVocab(vocab, "here");
  vocab.merges.push_back(vocab.merges[3]);
  EXPECT_TRUE(Contains(Refusal(vocab), "merge 5 appears twice"));
}

TEST(BpeVocab, RefusesTooManyIds) {
  BpeVocab vocab = SmallVocab();
  for (int64_t i = 0; i < kMaxVocabIds; ++i) vocab.tokens.Add("");
  EXPECT_TRUE(Contains(Refusal(vocab), "too large"));
  vocab = SmallVocab();
  vocab.merges.resize(static_cast<size_t>(kMaxMerges) + 1, vocab.merges[0]);
  EXPECT_TRUE(Contains(Refusal(vocab), "too large"));
}

// The rule itself, without an index: neighbours that together are a token, the lowest id first.
std::vector<int32_t> EncodeByRanks(const std::map<std::string, int32_t>& ranks,
                                   const std::string& pretoken) {
  std::vector<std::string> symbols;
  for (const char c : pretoken) symbols.emplace_back(1, c);
  while (true) {
    int32_t best = INT32_MAX;
    size_t at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = ranks.find(symbols[i] + symbols[i + 1]);
      if (found == ranks.end() || found->second >= best) continue;
      best = found->second;
      at = i;
    }
    if (best == INT32_MAX) break;
    symbols[at] += symbols[at + 1];
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
  std::vector<int32_t> ids;
  for (const std::string& symbol : symbols) ids.push_back(ranks.at(symbol));
  return ids;
}

// Every vocabulary of up to five tokens over two letters in random order, with parts missing or
// late: pairs give the same as ranks on every string of up to nine letters.
TEST(MergesFromRanks, PairsDoWhatRanksDo) {
  TestRng rng(1);
  for (int round = 0; round < (kSanitized ? 12 : 60); ++round) {
    BpeVocab vocab = ByteVocab();
    std::map<std::string, int32_t> ranks = {{"a", 'a'}, {"b", 'b'}};
    for (int i = 0; i < 6; ++i) {
      std::string token;
      for (size_t length = 2 + rng.Below(5); length > 0; --length)
        token += rng.Below(2) ? 'a' : 'b';
      if (i == 3) AddToken(vocab, "");  // an id that is not used
      if (!ranks.contains(token)) ranks[token] = AddToken(vocab, token);
    }
    vocab.merges = MergesFromRanks(vocab.tokens, static_cast<int32_t>(vocab.tokens.size()));
    EXPECT_TRUE(std::ranges::is_sorted(vocab.merges, {}, &BpeMerge::merged));
    for (uint32_t length = 1; length <= 9; ++length) {
      for (uint32_t bits = 0; bits < 1u << length; ++bits) {
        std::string pretoken;
        for (uint32_t i = 0; i < length; ++i) pretoken += (bits >> i & 1u) ? 'a' : 'b';
        ASSERT_EQ(MergedAsDefined(vocab, pretoken), EncodeByRanks(ranks, pretoken)) << pretoken;
      }
    }
  }
}

TEST(MergesFromRanks, FindsTheMergesOfAVocabulary) {
  const BpeVocab vocab = SmallVocab();
  EXPECT_EQ(MergesFromRanks(vocab.tokens, static_cast<int32_t>(vocab.tokens.size()) - 2),
            vocab.merges);
}

}  // namespace
}  // namespace folio
