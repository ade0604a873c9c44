#include "folio/text/split_simd.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "folio/base/simd_targets.h"
#include "folio/text/test_split_pieces.h"
#include "folio/text/test_tokenizer_properties.h"

namespace folio {
namespace {

constexpr SplitPattern kPatterns[] = {SplitPattern::kGpt2, SplitPattern::kCl100k,
                                      SplitPattern::kO200k};

// Words, contractions, every kind of space, characters of two to four bytes, bad bytes.
const std::vector<std::string>& Parts() {
  static const std::vector<std::string> parts = {"a",
                                                 "the",
                                                 "Word",
                                                 "x",
                                                 " ",
                                                 " ",
                                                 "  ",
                                                 "\n",
                                                 "\r\n",
                                                 "\t",
                                                 "'",
                                                 "'s",
                                                 "'d",
                                                 "'m",
                                                 "'t",
                                                 "'ll",
                                                 "'re",
                                                 "'ve",
                                                 "'v",
                                                 "l",
                                                 "s",
                                                 "1",
                                                 "2024",
                                                 ".",
                                                 "!?",
                                                 "-",
                                                 "é",
                                                 "Ж",
                                                 "中文",
                                                 "か",
                                                 "\u00a0",
                                                 "\u3000",
                                                 "½",
                                                 "٣",
                                                 "👍🏽",
                                                 "’",
                                                 "“",
                                                 "\xff",
                                                 "\xe4",
                                                 "\xe4\xb8",
                                                 "\xf0\x9f",
                                                 "\u0301",
                                                 "longerwordthanablockofsixtyfourbytes",
                                                 "longerwordthanablockofsixtyfourbytesforitself"};
  return parts;
}

class SplitSimd : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ForceSimdTarget(GetParam()); }
  void TearDown() override { ForceSimdTarget(""); }
};

TEST_P(SplitSimd, PiecesAreThoseOfTheScanner) {
  TestRng rng(1);
  for (int i = 0; i < 4000; ++i) {
    std::vector<std::string> few;
    for (size_t j = 0; j <= rng.Below(6); ++j) few.push_back(Parts()[rng.Below(Parts().size())]);
    const std::string text = RandomText(i % 2 == 0 ? few : Parts(), 1 + rng.Below(150), rng);
    for (const SplitPattern pattern : kPatterns) {
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
    ASSERT_EQ(ManyAtATime(SplitPattern::kGpt2, text, true, 512),
              OneByOne(SplitPattern::kGpt2, text, true));
  }
}

// A contraction, a space or a character beyond ASCII at each place of a block.
TEST_P(SplitSimd, EveryPlaceInABlock) {
  for (const std::string filling : {"a", "1", "-", "é", " a", "中"}) {
    for (const std::string& part : Parts()) {
      for (size_t at = 0; at < 70; ++at) {
        std::string text;
        while (text.size() < at) text += filling;
        text += part + "up and'll go on for longer than it takes to fill another block with text";
        ASSERT_EQ(ManyAtATime(SplitPattern::kGpt2, text, true, kMinSplitEnds),
                  OneByOne(SplitPattern::kGpt2, text, true))
            << text;
      }
    }
  }
}

TEST_P(SplitSimd, LongPiecesAreLinear) {
  for (const std::string part : {"a", " ", "\n", "'", "-", "7", "é", "中", "👍", "\xff", "\u3000"}) {
    std::string text;
    while (text.size() < 2'000'000) text += part;
    EXPECT_EQ(ManyAtATime(SplitPattern::kGpt2, text, true, 512),
              OneByOne(SplitPattern::kGpt2, text, true));
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, SplitSimd, testing::ValuesIn(SimdTargets()),
                         [](const auto& target) { return target.param; });

}  // namespace
}  // namespace folio
