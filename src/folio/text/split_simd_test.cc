#include "folio/text/split_simd.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "folio/base/simd_targets.h"
#include "folio/text/test_split_pretokens.h"
#include "folio/text/test_texts.h"

namespace folio {
namespace {

constexpr SplitPattern kPatterns[] = {SplitPattern::kGpt2, SplitPattern::kCl100k,
                                      SplitPattern::kO200k};

class SplitSimd : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ForceSimdTarget(GetParam()); }
  void TearDown() override { ForceSimdTarget(""); }
};

TEST_P(SplitSimd, PretokensAreThoseOfTheScanner) {
  TestRng rng(1);
  for (int i = 0; i < 4000; ++i) {
    const std::string text = RandomRuns(AwkwardParts(), 150, rng);
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
              OneByOne(SplitPattern::kGpt2, text));
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
        ASSERT_EQ(ManyAtATime(SplitPattern::kGpt2, text, true, kMinSplitEnds),
                  OneByOne(SplitPattern::kGpt2, text))
            << text;
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
