// That the invented texts have the statistics of real ones, by which a tokenizer's speed stands and
// falls. The bounds are what real texts of each kind have, with room on both sides.
#include "folio/bench/texts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "folio/bench/draws.h"
#include "folio/bench/lexicon.h"
#include "folio/io/test_data.h"
#include "folio/text/split.h"
#include "folio/text/tokenizer.h"
#include "folio/text/utf8.h"

namespace folio {
namespace {

struct Pieces {
  double count = 0;
  double bytes_per_piece = 0;
  double distinct = 0;
  double once = 0;         // share of the distinct ones
  double most_common = 0;  // share of all that the hundred most common make
  double short_ones = 0;   // share of all with at most 15 bytes
};

Pieces Measure(const std::string& text) {
  std::unordered_map<std::string_view, int64_t> counts;
  Pieces pieces;
  for (size_t at = 0; at < text.size();) {
    const size_t end = NextPiece(SplitPattern::kGpt2, text, at);
    ++counts[std::string_view(text).substr(at, end - at)];
    ++pieces.count;
    pieces.short_ones += end - at <= 15;
    at = end;
  }
  std::vector<int64_t> sorted;
  for (const auto& [piece, count] : counts) {
    sorted.push_back(count);
    pieces.once += count == 1;
  }
  std::ranges::sort(sorted, std::greater());
  for (size_t i = 0; i < 100; ++i) pieces.most_common += static_cast<double>(sorted.at(i));
  pieces.distinct = static_cast<double>(counts.size());
  pieces.bytes_per_piece = static_cast<double>(text.size()) / pieces.count;
  pieces.once /= pieces.distinct;
  pieces.most_common /= pieces.count;
  pieces.short_ones /= pieces.count;
  return pieces;
}

struct Bounds {
  BenchLanguage language;
  double bytes_per_piece[2];
  double distinct[2];  // of 1 MB
  double growth[2];    // exponent of Heaps' law from 1 MB to 4 MB
  double most_common[2];
  double short_ones[2];
};

TEST(BenchTexts, PiecesAreLikeThoseOfRealText) {
  for (const Bounds& bounds :
       {Bounds{BenchLanguage::kEnglish, {4, 4.9}, {13e3, 25e3}, {.5, .7}, {.5, .62}, {.98, 1}},
        Bounds{BenchLanguage::kCode, {3.3, 4.2}, {10e3, 16e3}, {.55, .85}, {.5, .66}, {.97, 1}},
        Bounds{BenchLanguage::kChinese, {6, 8}, {3e4, 8e4}, {.7, 1}, {.4, .65}, {.8, .93}},
        Bounds{BenchLanguage::kJapanese, {9, 14}, {2e4, 4e4}, {.7, 1}, {.4, .66}, {.65, .85}},
        Bounds{BenchLanguage::kRussian, {6.6, 10}, {13e3, 25e3}, {.5, .7}, {.4, .6}, {.75, .92}}}) {
    SCOPED_TRACE(BenchLanguageName(bounds.language));
    const std::string text = BenchText(bounds.language, 4'000'000, 1);
    const Pieces one = Measure(text.substr(0, CompleteUtf8Prefix(text.substr(0, 1'000'000))));
    const Pieces four = Measure(text);
    const auto within = [](double value, const double(&range)[2], const char* what) {
      EXPECT_GE(value, range[0]) << what;
      EXPECT_LE(value, range[1]) << what;
    };
    within(four.bytes_per_piece, bounds.bytes_per_piece, "bytes per piece");
    within(one.distinct, bounds.distinct, "distinct pieces");
    within(std::log(four.distinct / one.distinct) / std::log(4.0), bounds.growth, "growth");
    within(four.most_common, bounds.most_common, "most common");
    within(four.short_ones, bounds.short_ones, "short ones");
    EXPECT_GT(four.once, 0.3);
  }
}

TEST(BenchTexts, EnglishIsOfTokensAndRussianIsNot) {
  const std::string vocabulary = TestData("gpt2/vocab.bpe");
  if (vocabulary.empty()) GTEST_SKIP() << "vocabulary not here";
  const auto gpt2 = LoadTokenizer(std::filesystem::path(vocabulary).parent_path().string());
  // The share of pieces that become at most `tokens` tokens.
  const auto share = [&](BenchLanguage language, int64_t tokens) {
    const std::string text = BenchText(language, 500'000, 1);
    double all = 0, within = 0;
    for (size_t at = 0; at < text.size(); ++all) {
      const size_t end = NextPiece(SplitPattern::kGpt2, text, at);
      within += gpt2->Count(std::string_view(text).substr(at, end - at)) <= tokens;
      at = end;
    }
    return within / all;
  };
  EXPECT_NEAR(share(BenchLanguage::kEnglish, 1), 0.89, 0.04);
  EXPECT_NEAR(share(BenchLanguage::kEnglish, 2), 0.965, 0.02);
  EXPECT_NEAR(share(BenchLanguage::kCode, 1), 0.81, 0.05);
  EXPECT_NEAR(share(BenchLanguage::kRussian, 2), 0.42, 0.08);
  EXPECT_NEAR(share(BenchLanguage::kJapanese, 2), 0.58, 0.08);
  EXPECT_LT(share(BenchLanguage::kChinese, 2), 0.66);
}

TEST(BenchTexts, SeedsShareTheVocabularyAndNotTheText) {
  for (const BenchLanguage language : kBenchLanguages) {
    SCOPED_TRACE(BenchLanguageName(language));
    const std::string one = BenchText(language, 200'003, 1);
    const std::string other = BenchText(language, 200'003, 2);
    EXPECT_EQ(one, BenchText(language, 200'003, 1));
    EXPECT_NE(one.substr(0, 300), other.substr(0, 300));
    EXPECT_EQ(FindInvalidUtf8(one), std::string::npos);
    EXPECT_EQ(FindInvalidUtf8(other), std::string::npos);
    std::unordered_map<std::string_view, int> seen;
    for (size_t at = 0; at < one.size();) {
      const size_t end = NextPiece(SplitPattern::kGpt2, one, at);
      seen[std::string_view(one).substr(at, end - at)] = 1;
      at = end;
    }
    double shared = 0, all = 0;
    for (size_t at = 0; at < other.size(); ++all) {
      const size_t end = NextPiece(SplitPattern::kGpt2, other, at);
      shared += static_cast<double>(seen.count(std::string_view(other).substr(at, end - at)));
      at = end;
    }
    EXPECT_GT(shared / all, 0.5);
    EXPECT_LT(shared / all, 0.98);
  }
}

TEST(BenchTexts, LengthIsAsAskedUpToACharacter) {
  for (const BenchLanguage language : kBenchLanguages) {
    const std::string text = BenchText(language, 5000, 3);
    for (const size_t bytes : {0, 1, 2, 3, 100, 101, 102, 4999}) {
      const std::string part = BenchText(language, bytes, 3);
      EXPECT_LE(part.size(), bytes);
      EXPECT_GE(part.size() + 3, bytes);
      EXPECT_EQ(FindInvalidUtf8(part), std::string::npos);
      EXPECT_EQ(part, text.substr(0, part.size())) << "a longer text begins differently";
    }
  }
}

TEST(ZipfRanks, FollowTheLaw) {
  const ZipfRanks ranks(0.5, 1.0, 1000, 2.0);
  Draws draws(1, 1);
  constexpr int kDraws = 1'000'000;
  std::vector<double> counts(1000);
  int beyond = 0, far_beyond = 0;
  for (int i = 0; i < kDraws; ++i) {
    const uint64_t rank = ranks.Draw(draws);
    if (rank < counts.size()) ++counts[rank];
    beyond += rank >= 1000;
    far_beyond += rank >= 4000;
  }
  double sum = 0;
  for (int rank = 0; rank < 1000; ++rank) sum += 1 / (rank + 1.5);
  const double tail = 1000 / 1000.5;  // the integral of 1/1000.5 (1000/r)^2 from 1000 on
  for (const int rank : {0, 1, 2, 5, 10, 50}) {
    const double expected = kDraws / (rank + 1.5) / (sum + tail);
    EXPECT_NEAR(counts[static_cast<size_t>(rank)], expected, 5 * std::sqrt(expected)) << rank;
  }
  const double expected = kDraws * tail / (sum + tail);
  EXPECT_NEAR(beyond, expected, 5 * std::sqrt(expected));
  EXPECT_NEAR(far_beyond, expected / 4, 5 * std::sqrt(expected / 4));
}

TEST(Lexicon, SmallestKeyOfAWordCounts) {
  Lexicon lexicon;
  lexicon.Add(3, "c");
  lexicon.Add(1, "b");
  lexicon.Add(2, "c");
  lexicon.Add(1, "a");
  lexicon.Sort();
  ASSERT_EQ(lexicon.size(), 3u);
  EXPECT_EQ(lexicon[0], "b");  // of equal keys the one that was added first
  EXPECT_EQ(lexicon[1], "a");
  EXPECT_EQ(lexicon[2], "c");
}

TEST(Lexicon, ListsAreTakenApart) {
  EXPECT_EQ(SplitWords("a - bc"), (std::vector<std::string_view>{"a", "", "bc"}));
  EXPECT_EQ(SplitWords(""), std::vector<std::string_view>{});
  EXPECT_EQ(SplitCharacters("aя日"), (std::vector<std::string_view>{"a", "я", "日"}));
}

TEST(Lexicon, CapitalsOfBothAlphabets) {
  const auto upper = [](std::string text, size_t at) {
    UpperAt(text, at);
    return text;
  };
  EXPECT_EQ(upper("az", 1), "aZ");
  EXPECT_EQ(upper("а", 0), "А");
  EXPECT_EQ(upper("яма", 0), "Яма");
  EXPECT_EQ(upper("рёв", 2), "рЁв");
  EXPECT_EQ(upper("Z5日", 0), "Z5日");
  EXPECT_EQ(upper("日", 0), "日");
  EXPECT_EQ(upper("a", 1), "a");
}

}  // namespace
}  // namespace folio
