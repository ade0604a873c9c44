#include "folio/text/split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "folio/base/simd_targets.h"
#include "folio/base/utf8.h"
#include "folio/text/test_oracles.h"
#include "folio/text/test_split_pretokens.h"
#include "folio/text/test_texts.h"
#include "folio/text/unicode.h"
#include "tests/kit/directory.h"
#include "tests/kit/sanitized.h"

namespace folio {
namespace {

using Ends = std::vector<size_t>;
using Pretokens = std::vector<std::string_view>;

constexpr auto& kAll = kSplitPatterns;

// The patterns as published, apart from line breaks.
const SplitOracle& OracleOf(SplitPattern pattern) {
  static const SplitOracle gpt2(
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)");
  static const SplitOracle cl100k(
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
      R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s+$|\s*[\r\n]|\s+(?!\S)|\s)");
  static const SplitOracle o200k(
      R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
      R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
      R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)");
  static const SplitOracle llama3(
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
      R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)");
  static const SplitOracle qwen2(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                                 R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)");
  static const SplitOracle nanochat(R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}|)"
                                    R"( ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)");
  switch (pattern) {
    case SplitPattern::kCl100k:
      return cl100k;
    case SplitPattern::kO200k:
      return o200k;
    case SplitPattern::kLlama3:
      return llama3;
    case SplitPattern::kQwen2:
      return qwen2;
    case SplitPattern::kNanochat:
      return nanochat;
    default:
      return gpt2;
  }
}

// SmolLM's pattern has two steps: numbers are separated, then GPT-2's pattern is applied between
// them.
Ends ExpectedSplit(SplitPattern pattern, std::string_view text) {
  const SplitOracle& oracle = OracleOf(pattern);
  if (pattern != SplitPattern::kSmolLm) return oracle.Split(text);
  Ends ends;
  size_t begin = 0;
  const auto split_before = [&](size_t number) {
    for (const size_t end : oracle.Split(text.substr(begin, number - begin))) {
      ends.push_back(begin + end);
    }
  };
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = DecodeUtf8(text, at);
    const bool valid = c.status == Utf8Status::kValid;
    const size_t next = at + (valid ? c.length : 1);
    if (valid && ClassOf(c.code) == CharClass::kNumber) {
      split_before(at);
      ends.push_back(begin = next);
    }
    at = next;
  }
  split_before(text.size());
  return ends;
}

Strings MakeAlphabet() {
  Strings all = {"'", "'", "'", " ", " ", "\n", "\r", "/", "!", "-", "\"", "a", "B", "1", "23"};
  for (const char* s : {"s", "t", "d", "m", "l", "v", "r",   "e",   "S",   "T",     "D",
                        "M", "L", "V", "R", "E", "k", "'ll", "'Re", "'vE", "don't", "HELLO"}) {
    all.emplace_back(s);
  }
  for (const char32_t code : std::u32string(
           U"\t\v\f\u0085\u00A0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009"
           U"\u200A\u2028\u2029\u202F\u205F\u3000"              // white space
           U"\x01\x1C\x1F\x7F\u00AD\u180E\u200B\u2060\uFEFF"    // none
           U"\u017F\u212A\u2019\u00DF\u00E9\u0416\u0436\u00C9"  // letters with case, and traps of
                                                                // case folding
           U"\u01C5\u1FFC\u02B0\u3005\u30FC\u00AA\u4E2D\u05D0\u0E01\uAC00\U00020000"
           U"\u0301\u0903\u20DD\uFE0F\u200D\U0001F44D\U0001F3FD\U0001F468"
           U"\u0663\u00B2\u00BD\u2163\u2460\u3007\U0001D7FF"
           U"\uE000\u0378\uFFFD\U0010FFFF\U000E0100")) {
    std::string s;
    AppendUtf8(code, s);
    all.push_back(s);
  }
  all.emplace_back(1, '\0');
  for (const char* s :
       {"\x80", "\xBF", "\xC0\xAF", "\xC1", "\xC2", "\xC5", "\xE0\x80", "\xE4\xB8", "\xED\xA0\x80",
        "\xED\xBF\xBF", "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF", "\xF0\x9F", "\xF0\x9F\x91", "\xF0\x80",
        "\xF4\x90\x80\x80", "\xF5", "\xFF"}) {
    all.emplace_back(s);
  }
  return all;
}

// Everything that the patterns distinguish, and similar characters.
const Strings& Alphabet() {
  static const Strings alphabet = MakeAlphabet();
  return alphabet;
}

TEST(Split, NamesAndPatterns) {
  for (const SplitPattern pattern : kAll) {
    EXPECT_EQ(FindSplitPattern(SplitPatternName(pattern)), pattern);
    EXPECT_NE(SplitPatternRegex(pattern).find(R"(\s+(?!\S))"), std::string_view::npos);
  }
  EXPECT_EQ(SplitPatternName(SplitPattern::kCl100k), "cl100k");
  EXPECT_EQ(FindSplitPattern("cl100k_base"), std::nullopt);
}

TEST(Split, Gpt2Examples) {
  const auto split = [](std::string_view text) { return PretokensOf(SplitPattern::kGpt2, text); };
  EXPECT_EQ(split("don't  's''s 'sup1's"),
            (Pretokens{"don", "'t", " ", " '", "s", "''", "s", " '", "sup", "1", "'s"}));
  EXPECT_EQ(split("a  b\n\nc \n"), (Pretokens{"a", " ", " b", "\n", "\n", "c", " \n"}));
  EXPECT_EQ(split("x² 12345 e\u0301"), (Pretokens{"x", "²", " 12345", " e", "\u0301"}));
  EXPECT_EQ(split("a\u3000\u3000b I'LL"),
            (Pretokens{"a", "\u3000", "\u3000", "b", " I", "'", "LL"}));
}

TEST(Split, Cl100kExamples) {
  const auto split = [](std::string_view text) { return PretokensOf(SplitPattern::kCl100k, text); };
  EXPECT_EQ(split("I'LL 'hello x'\u017Fab"),
            (Pretokens{"I", "'LL", " '", "hello", " x", "'\u017F", "ab"}));
  EXPECT_EQ(split("a \n \n  b"), (Pretokens{"a", " \n \n", " ", " b"}));
  EXPECT_EQ(split("1234567\tfoo!!\n\n  1 \n "),
            (Pretokens{"123", "456", "7", "\tfoo", "!!\n\n", " ", " ", "1", " \n "}));
  EXPECT_EQ(split("'hello e\u0301a"), (Pretokens{"'hello", " e", "\u0301a"}));
}

TEST(Split, O200kExamples) {
  const auto split = [](std::string_view text) { return PretokensOf(SplitPattern::kO200k, text); };
  EXPECT_EQ(split("I'LL can't x'\u017Fab CamelCASEWord"),
            (Pretokens{"I'LL", " can't", " x'\u017F", "ab", " Camel", "CASEWord"}));
  EXPECT_EQ(split("e\u0301a \u0301's //\n/x \n "),
            (Pretokens{"e\u0301a", " \u0301's", " //\n/", "x", " \n", " "}));
  // A caseless letter counts as lower case, and a mark before capitals is alone.
  EXPECT_EQ(split("AB\u02B0CD"), (Pretokens{"AB\u02B0", "CD"}));
  EXPECT_EQ(split("1\u0301AB"), (Pretokens{"1", "\u0301", "AB"}));
}

TEST(Split, ExamplesOfThePatternsThatAreLikeThem) {
  const auto split = [](SplitPattern pattern, std::string_view text) {
    return PretokensOf(pattern, text);
  };
  EXPECT_EQ(split(SplitPattern::kSmolLm, "a 12  \u00BD \u0663x  b's1 "),
            (Pretokens{"a", " ", "1", "2", "  ", "\u00BD", " ", "\u0663", "x", " ", " b", "'s", "1",
                       " "}));
  EXPECT_EQ(split(SplitPattern::kLlama3, "1234567'LLx \n "),
            (Pretokens{"123", "456", "7", "'LL", "x", " \n", " "}));
  EXPECT_EQ(split(SplitPattern::kQwen2, "x 123\r\n"), (Pretokens{"x", " ", "1", "2", "3", "\r\n"}));
  EXPECT_EQ(split(SplitPattern::kNanochat, "12345 'D'dx"),
            (Pretokens{"12", "34", "5", " '", "D", "'d", "x"}));
}

// SmolLM's single expression is equal to the two steps.
TEST(Split, TheExpressionOfSmolLmIsItsTwoSteps) {
  const SplitOracle one(SplitPatternRegex(SplitPattern::kSmolLm));
  TestRng rng(17);
  for (int round = 0; round < 10000; ++round) {
    const std::string text = RandomRuns(Alphabet(), 14, rng);
    ASSERT_EQ(one.Split(text), ExpectedSplit(SplitPattern::kSmolLm, text))
        << testing::PrintToString(text);
  }
}

TEST(Split, PretokensAreThoseOfTheRegularExpressions) {
  TestRng rng(16);
  for (int round = 0; round < (kSanitized ? 10000 : 50000); ++round) {
    const std::string text = RandomRuns(Alphabet(), 14, rng);
    // Bytes after the text must not be read.
    const std::string longer = text + (round % 2 == 0 ? "\x80\xBFs\n" : "s\u0301\n");
    for (const SplitPattern pattern : kAll) {
      const std::string_view view(longer.data(), text.size());
      ASSERT_EQ(OneByOne(pattern, view), ExpectedSplit(pattern, text))
          << SplitPatternName(pattern) << " " << testing::PrintToString(text);
    }
  }
}

TEST(Split, OpenEndIsUndecidedExactlyWhereMoreTextCouldMatter) {
  const Strings followers = {"a", "A",  "s",      "e",      "l",       "1",    "!",  "'", "\n",
                             " ", " x", "\u0301", "\u4E2D", "\u02B0a", "\xFF", "a1", "",  "\n!"};
  TestRng rng(16);
  for (int round = 0; round < (kSanitized ? 1500 : 10000); ++round) {
    const std::string text = RandomRuns(Alphabet(), 10, rng);
    for (const SplitPattern pattern : kAll) {
      for (size_t begin = 0; begin < text.size(); begin = NextPretoken(pattern, text, begin)) {
        const size_t end = NextPretoken(pattern, text, begin, false);
        std::vector<size_t> possible;
        for (const std::string& follower : followers) {
          possible.push_back(NextPretoken(pattern, text + follower, begin));
        }
        const bool differ = std::adjacent_find(possible.begin(), possible.end(),
                                               std::not_equal_to<>()) != possible.end();
        if (end != kUndecided || CompleteUtf8Prefix(text) == text.size()) {
          ASSERT_EQ(end, differ ? kUndecided : possible[0])
              << SplitPatternName(pattern) << " " << testing::PrintToString(text) << " at "
              << begin;
        }
      }
    }
  }
}

TEST(Split, DecidedPretokensOfEveryPrefixAreThoseOfTheWhole) {
  TestRng rng(16);
  for (int round = 0; round < (kSanitized ? 1500 : 10000); ++round) {
    const std::string text = RandomRuns(Alphabet(), 12, rng);
    for (const SplitPattern pattern : kAll) {
      size_t begin = 0;
      for (const size_t end : OneByOne(pattern, text)) {
        for (size_t cut = begin + 1; cut <= text.size(); ++cut) {
          const size_t early = NextPretoken(pattern, text.substr(0, cut), begin, false);
          ASSERT_TRUE(early == kUndecided || early == end)
              << SplitPatternName(pattern) << " " << testing::PrintToString(text) << " at " << begin
              << " of " << cut;
        }
        begin = end;
      }
    }
  }
}

TEST(Split, IncompleteCharacterDecidesNothing) {
  for (const SplitPattern pattern : kAll) {
    EXPECT_EQ(NextPretoken(pattern, "ab\xC3", 0, false), kUndecided);
    EXPECT_EQ(NextPretoken(pattern, "!\xF0\x9F\x91", 0, false), kUndecided);
    EXPECT_EQ(NextPretoken(pattern, "\xE4\xB8", 0, false), kUndecided);
    EXPECT_EQ(NextPretoken(pattern, "\xE4\xB8", 0, true), 2u);
    EXPECT_EQ(NextPretoken(pattern, "a \xE4", 0, false), 1u);
  }
}

// Returns true if FindCut's rule holds between the characters `before` and `after`.
bool MayCut(char32_t before, char32_t after) {
  const CharClass a = ClassOf(before);
  const CharClass b = ClassOf(after);
  if (after == U' ') return a != CharClass::kSpace;
  if (a == CharClass::kNumber) return b != CharClass::kNumber;
  return IsLetter(a) && !IsLetter(b) && b != CharClass::kMark && after != U'\'';
}

TEST(Split, CutsAreTheFirstThatTheRuleAllowsAndHoldInEveryPattern) {
  TestRng rng(16);
  size_t cuts = 0;
  for (int round = 0; round < 10000; ++round) {
    const std::string text = RandomRuns(Alphabet(), 14, rng);
    std::vector<size_t> allowed;
    char32_t before = 0;
    for (size_t at = 0; at < text.size();) {
      const Utf8Char c = DecodeUtf8(text, at);
      const bool valid = c.status == Utf8Status::kValid;
      const char32_t code = valid ? c.code : 0xFFFD;
      if (at > 0 && MayCut(before, code)) allowed.push_back(at);
      before = code;
      at += valid ? c.length : 1;
    }
    allowed.push_back(text.size());
    for (size_t at = 0; at <= text.size(); ++at) {
      ASSERT_EQ(FindCut(text, at), *std::lower_bound(allowed.begin(), allowed.end(), at))
          << testing::PrintToString(text) << " from " << at;
    }
    for (const size_t cut : allowed) {
      cuts += cut < text.size();
      for (const SplitPattern pattern : kAll) {
        Ends ends = OneByOne(pattern, text.substr(0, cut));
        for (const size_t end : OneByOne(pattern, text.substr(cut))) ends.push_back(cut + end);
        ASSERT_EQ(ends, OneByOne(pattern, text))
            << SplitPatternName(pattern) << " " << testing::PrintToString(text) << " cut at "
            << cut;
      }
    }
  }
  EXPECT_GT(cuts, 10000u);
}

TEST(Split, FindCutBeyondTheTextIsItsEnd) {
  EXPECT_EQ(FindCut("", 0), 0u);
  EXPECT_EQ(FindCut("ab", 2), 2u);
  EXPECT_EQ(FindCut("a b", 7), 3u);
  EXPECT_EQ(FindCut(" a", 0), 2u);
}

// Hangs if a scanner or FindCut is quadratic, and overflows the stack if one recurses.
TEST(Split, MillionsOfTheSameAreLinear) {
  constexpr size_t kTimes = kSanitized ? 200'000 : 2'000'000;
  for (const std::string unit :
       {"a",   "A",      "\u4E2D", "\u02B0", "\u01C5",  "\u0301",     "1",    " ",
        "\n",  "\u00A0", "!",      "'",      "/",       "\U0001F44D", "\x80", "\xF0\x9F",
        "\n ", " !",     "'s",     "a'",     "\u0301A", "!\u0301",    "aA"}) {
    const std::string run = Repeated(unit, kTimes * unit.size());
    for (const std::string& text : {run, "\u02B0" + run, "1\u0301" + run + "a", run + "\u0301"}) {
      for (const SplitPattern pattern : kAll) {
        size_t at = 0;
        while (at < text.size()) at = NextPretoken(pattern, text, at);
        EXPECT_EQ(at, text.size());
      }
    }
    EXPECT_LE(FindCut(run, run.size() / 3), run.size());
  }
}

class SplitSimd : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ForceSimdTarget(GetParam()); }
  void TearDown() override { ForceSimdTarget(""); }
};

TEST_P(SplitSimd, PretokensAreThoseOfTheScanner) {
  TestRng rng(1);
  for (int i = 0; i < 4000; ++i) {
    const std::string text = RandomRuns(AwkwardParts(), 150, rng);
    for (const SplitPattern pattern : kAll) {
      for (const bool at_end : {true, false}) {
        ASSERT_EQ(ManyAtATime(pattern, text, at_end, kMinSplitEnds + rng.Below(200)),
                  OneByOne(pattern, text, at_end))
            << SplitPatternName(pattern) << " at_end " << at_end << ": " << text;
      }
    }
  }
}

TEST_P(SplitSimd, EveryPairOfAsciiCharacters) {
  for (const std::string before : {"x", " ", "7", "-", "\n"}) {
    std::string text;
    for (int a = 0; a < 128; ++a) {
      for (int b = 0; b < 128; ++b) {
        text += before;
        text += static_cast<char>(a);
        text += static_cast<char>(b);
      }
    }
    for (const SplitPattern pattern : {SplitPattern::kGpt2, SplitPattern::kSmolLm}) {
      ASSERT_EQ(ManyAtATime(pattern, text, true, 512), OneByOne(pattern, text));
    }
  }
}

// A contraction, a space or a character beyond ASCII at each place of a block.
TEST_P(SplitSimd, EveryPlaceInABlock) {
  for (const std::string filling : {"a", "1", "-", "é", " a", "中"}) {
    for (const std::string& part : AwkwardParts()) {
      for (size_t at = 0; at < 70; ++at) {
        const std::string text =
            Repeated(filling, at) + part +
            "up and'll go on for longer than it takes to fill another block with text";
        for (const SplitPattern pattern : {SplitPattern::kGpt2, SplitPattern::kSmolLm}) {
          ASSERT_EQ(ManyAtATime(pattern, text, true, kMinSplitEnds), OneByOne(pattern, text))
              << text;
        }
      }
    }
  }
}

TEST_P(SplitSimd, LongPretokensAreLinear) {
  for (const std::string part : {"a", " ", "\n", "'", "-", "7", "é", "中", "👍", "\xff", "\u3000"}) {
    const std::string text = Repeated(part, 2'000'000);
    EXPECT_EQ(ManyAtATime(SplitPattern::kGpt2, text, true, 512),
              OneByOne(SplitPattern::kGpt2, text));
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, SplitSimd, testing::ValuesIn(SimdTargets()),
                         [](const auto& target) { return target.param; });

}  // namespace

}  // namespace folio
