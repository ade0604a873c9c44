// That invented text has the statistics of real text, by which a tokenizer's speed stands and
// falls. The bounds are what real texts of each kind have, with room on both sides.
#include "folio/bench/tokenizer_speed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "folio/base/rng.h"
#include "folio/base/utf8.h"
#include "folio/text/test_split_pretokens.h"
#include "folio/text/unicode.h"
#include "tests/kit/expect.h"
#include "tests/kit/paths.h"
#include "tests/kit/sanitized.h"

namespace folio {
namespace {

struct Pretokens {
  double count = 0;
  double bytes_per_pretoken = 0;
  double distinct = 0;
  double once = 0;         // share of the distinct ones
  double most_common = 0;  // share of all that the hundred most common make
  double short_ones = 0;   // share of all with at most 15 bytes
};

Pretokens Measure(const std::string& text) {
  std::unordered_map<std::string_view, int64_t> counts;
  Pretokens pretokens;
  for (const std::string_view pretoken : PretokensOf(SplitPattern::kGpt2, text)) {
    ++counts[pretoken];
    ++pretokens.count;
    pretokens.short_ones += pretoken.size() <= 15;
  }
  std::vector<int64_t> sorted;
  for (const auto& [pretoken, count] : counts) {
    sorted.push_back(count);
    pretokens.once += count == 1;
  }
  std::ranges::sort(sorted, std::greater());
  for (size_t i = 0; i < 100; ++i) pretokens.most_common += static_cast<double>(sorted.at(i));
  pretokens.distinct = static_cast<double>(counts.size());
  pretokens.bytes_per_pretoken = static_cast<double>(text.size()) / pretokens.count;
  pretokens.once /= pretokens.distinct;
  pretokens.most_common /= pretokens.count;
  pretokens.short_ones /= pretokens.count;
  return pretokens;
}

struct Bounds {
  BenchLanguage language;
  double bytes_per_pretoken[2];
  double distinct[2];  // of 1 MB
  double growth[2];    // exponent of Heaps' law from 1 MB to 4 MB
  double most_common[2];
  double short_ones[2];
};

TEST(InventedText, PretokensAreLikeThoseOfRealText) {
  for (const Bounds& bounds :
       {Bounds{BenchLanguage::kEnglish, {4, 4.9}, {13e3, 25e3}, {.5, .7}, {.5, .62}, {.98, 1}},
        Bounds{BenchLanguage::kCode, {3.3, 4.2}, {10e3, 16e3}, {.55, .85}, {.5, .66}, {.97, 1}},
        Bounds{BenchLanguage::kChinese, {6, 8}, {3e4, 8e4}, {.7, 1}, {.4, .65}, {.8, .93}},
        Bounds{BenchLanguage::kJapanese, {9, 14}, {2e4, 4e4}, {.7, 1}, {.4, .66}, {.65, .85}},
        Bounds{BenchLanguage::kRussian, {6.6, 10}, {13e3, 25e3}, {.5, .7}, {.4, .6}, {.75, .92}}}) {
    if (kSanitized && bounds.language != BenchLanguage::kJapanese) continue;
    SCOPED_TRACE(BenchLanguageName(bounds.language));
    const std::string text = InventedText(bounds.language, 4'000'000, 1);
    const Pretokens one = Measure(text.substr(0, CompleteUtf8Prefix(text.substr(0, 1'000'000))));
    const Pretokens four = Measure(text);
    const auto within = [](double value, const double(&range)[2], const char* what) {
      EXPECT_GE(value, range[0]) << what;
      EXPECT_LE(value, range[1]) << what;
    };
    within(four.bytes_per_pretoken, bounds.bytes_per_pretoken, "bytes per piece");
    within(one.distinct, bounds.distinct, "distinct pieces");
    within(std::log(four.distinct / one.distinct) / std::log(4.0), bounds.growth, "growth");
    within(four.most_common, bounds.most_common, "most common");
    within(four.short_ones, bounds.short_ones, "short ones");
    EXPECT_GT(four.once, 0.3);
  }
}

TEST(InventedText, SeedsShareTheVocabularyAndNotTheText) {
  for (const BenchLanguage language : kBenchLanguages) {
    SCOPED_TRACE(BenchLanguageName(language));
    const std::string one = InventedText(language, 200'003, 1);
    const std::string other = InventedText(language, 200'003, 2);
    EXPECT_EQ(one, InventedText(language, 200'003, 1));
    EXPECT_NE(one.substr(0, 300), other.substr(0, 300));
    EXPECT_EQ(FindInvalidUtf8(one), std::string::npos);
    EXPECT_EQ(FindInvalidUtf8(other), std::string::npos);
    const auto pretokens = PretokensOf(SplitPattern::kGpt2, one);
    const std::set<std::string_view> seen(pretokens.begin(), pretokens.end());
    const auto others = PretokensOf(SplitPattern::kGpt2, other);
    const auto shared = static_cast<double>(std::ranges::count_if(
        others, [&](std::string_view pretoken) { return seen.contains(pretoken); }));
    EXPECT_GT(shared / static_cast<double>(others.size()), 0.5);
    EXPECT_LT(shared / static_cast<double>(others.size()), 0.98);
  }
}

TEST(InventedText, LengthIsAsAskedUpToACharacter) {
  for (const BenchLanguage language : kBenchLanguages) {
    const std::string text = InventedText(language, 5000, 3);
    for (const size_t bytes : {0, 1, 2, 3, 100, 101, 102, 4999}) {
      const std::string part = InventedText(language, bytes, 3);
      EXPECT_LE(part.size(), bytes);
      EXPECT_GE(part.size() + 3, bytes);
      EXPECT_EQ(FindInvalidUtf8(part), std::string::npos);
      EXPECT_EQ(part, text.substr(0, part.size())) << "a longer text begins differently";
    }
  }
}

// The letters of each script, and nothing of the others.
TEST(InventedText, IsOfItsScript) {
  const std::map<BenchLanguage, std::pair<char32_t, char32_t>> ranges = {
      {BenchLanguage::kEnglish, {U'A', U'z'}},
      {BenchLanguage::kCode, {U'A', U'z'}},
      {BenchLanguage::kChinese, {U'\u4E00', U'\u9FFF'}},
      {BenchLanguage::kJapanese, {U'\u3041', U'\u9FFF'}},
      {BenchLanguage::kRussian, {U'А', U'я'}}};
  for (const auto& [language, range] : ranges) {
    SCOPED_TRACE(BenchLanguageName(language));
    const std::string text = InventedText(language, 100'000, 1);
    double letters = 0, digits = 0, all = 0;
    for (size_t at = 0; at < text.size(); ++all) {
      const Utf8Char c = DecodeUtf8(text, at);
      if (IsLetter(ClassOf(c.code))) {
        ++letters;
        EXPECT_TRUE(c.code >= range.first && c.code <= range.second) << QuoteChar(c.code);
      }
      digits += c.code >= U'0' && c.code <= U'9';
      at += c.length;
    }
    EXPECT_GT(letters / all, 0.5);
    EXPECT_GT(digits, 100);
  }
}

TEST(InventedText, CodeIsIndented) {
  const std::string text = InventedText(BenchLanguage::kCode, 100'000, 1);
  for (const char* part : {"\n    ", "\n        ", "_", "(", " = ", "[\""}) {
    EXPECT_TRUE(Contains(text, part)) << part;
  }
}

TEST(ZipfMandelbrot, FollowsTheLaw) {
  const ZipfMandelbrot law{.shift = 5, .exponent = 1.7};
  const CounterRng rng(1, 1);
  constexpr int kDraws = 1'000'000;
  std::vector<double> counts(1000);
  double beyond = 0;
  for (int i = 0; i < kDraws; ++i) {
    const uint64_t rank = law.Rank(rng.Bits(static_cast<uint64_t>(i)));
    if (rank < counts.size()) ++counts[rank];
    beyond += rank >= 1000;
  }
  const auto from = [](double rank) { return kDraws * std::pow(1 + rank / 5, -0.7); };
  for (const int rank : {0, 1, 2, 5, 10, 50}) {
    const double expected = from(rank) - from(rank + 1);
    EXPECT_NEAR(counts[static_cast<size_t>(rank)], expected, 5 * std::sqrt(expected)) << rank;
  }
  EXPECT_NEAR(beyond, from(1000), 5 * std::sqrt(from(1000)));
  EXPECT_EQ(law.Rank(UINT32_MAX), 0u);
  EXPECT_GT(law.Rank(0), 1'000'000u);
}

}  // namespace
}  // namespace folio
