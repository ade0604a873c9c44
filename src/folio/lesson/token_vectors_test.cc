// Tokens of a user's own: read from files, and taken through every form of attention.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "folio/base/error.h"
#include "folio/io/file.h"
#include "folio/lesson/topics.h"
#include "folio/report/report.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

class TokenVectorsOfAFile : public InTemporaryDirectory {
 protected:
  TokenVectors Read(const std::string& text) const {
    WriteFileAtomically(At("vectors"), text);
    return ReadTokenVectors(At("vectors"));
  }
  std::string Refusal(const std::string& text) const {
    return ErrorOf([&] { Read(text); }, ErrorKind::kInput);
  }
};

TEST_F(TokenVectorsOfAFile, AreLinesWithOrWithoutLabels) {
  const TokenVectors read = Read("\nthe 1 -2.5\r\n\n3e-1,\t4\n  dog, 5, 6");
  EXPECT_EQ(read.labels, (std::vector<std::string>{"the", "t1", "dog"}));
  EXPECT_EQ(read.numbers, (std::vector<float>{1, -2.5F, 0.3F, 4, 5, 6}));
  EXPECT_EQ(read.T(), 3);
  EXPECT_EQ(read.C(), 2);
}

TEST_F(TokenVectorsOfAFile, AreAnArrayOfArrays) {
  const TokenVectors read = Read(" [[1, 2.5], [-3, 4]]\n");
  EXPECT_EQ(read.labels, (std::vector<std::string>{"t0", "t1"}));
  EXPECT_EQ(read.numbers, (std::vector<float>{1, 2.5F, -3, 4}));
}

TEST_F(TokenVectorsOfAFile, AreRefusedWithTheLine) {
  EXPECT_TRUE(Contains(Refusal("a 1 2\nb 1 two\n"), "vectors:2", "'two' is no number"));
  EXPECT_TRUE(Contains(Refusal("a 1 2\n\nb 1\n"), "vectors:3", "expected 2 numbers", "found 1"));
  EXPECT_TRUE(Contains(Refusal("a b 1\n"), "vectors:1", "'b' is no number"));
  EXPECT_TRUE(Contains(Refusal("1 2\nalone\n"), "vectors:2", "a token without numbers"));
  EXPECT_TRUE(Contains(Refusal("1 1e99\n"), "'1e99' is no number"));
  EXPECT_TRUE(Contains(Refusal(" \n"), "nothing is in it"));
  EXPECT_TRUE(Contains(Refusal("[]"), "nothing is in it"));
  EXPECT_TRUE(Contains(Refusal("[[1], 2]"), "expected arrays of numbers, found 2"));
  EXPECT_TRUE(Contains(Refusal("[[1], [\"a\"]]"), "expected a number, found \"a\""));
  EXPECT_TRUE(Contains(Refusal("[[1], [1e99]]"), "expected a number, found 1e+99"));
  EXPECT_TRUE(Contains(Refusal("[[1], [1, 2]]"), "expected 1 numbers", "found 2"));
  EXPECT_TRUE(Contains(Refusal("[[1], "), "vectors:1:"));
  EXPECT_TRUE(Contains(Refusal("a\xff 1"), "not UTF-8"));
  std::string many;
  for (int i = 0; i < 65; ++i) many += "1\n";
  EXPECT_TRUE(Contains(Refusal(many), "vectors:65", "at most 64 tokens"));
}

TEST(AttentionOnTokensOfOnesOwn, ComputesWithThem) {
  const auto backend = MakeReferenceBackend();
  const TokenVectors two = {{"cold", "warm"}, {1, 0, 1, 1}};
  const Report walk =
      ExplainAttention(*backend, AttentionTopic{.form = "no-weights", .vectors = two});
  EXPECT_TRUE(Contains(walk.intro, "Your tokens: 2"));
  const std::string text = ReportText(walk, {.width = 100});
  const std::string share = fmt::format("{:.4f}", std::exp(2) / (std::exp(1) + std::exp(2)));
  EXPECT_TRUE(Contains(text, "s[warm, warm] = 1·1 + 1·1 = 2.0000", "context of “warm”", share));
  EXPECT_EQ(text.find("journey"), std::string::npos);
}

// Sizes at which a form could fall off its end.
TEST(AttentionOnTokensOfOnesOwn, TakesAnySize) {
  const auto backend = MakeCpuBackend();
  for (const size_t T : {1, 2, 3, 9}) {
    for (const size_t C : {1, 2, 8}) {
      TokenVectors vectors;
      for (size_t t = 0; t < T; ++t) vectors.labels.push_back("<&\"" + std::to_string(t));
      for (size_t i = 0; i < T * C; ++i) vectors.numbers.push_back(static_cast<float>(i % 5) / 4);
      const Report walk = ExplainAttention(*backend, AttentionTopic{.vectors = vectors});
      const std::string text = ReportText(walk, {});
      EXPECT_EQ(text.find("journey"), std::string::npos) << T << " tokens of " << C;
      EXPECT_EQ(text.find("step”"), std::string::npos) << T << " tokens of " << C;
      EXPECT_FALSE(ReportHtml(walk).empty());
    }
  }
}

}  // namespace
}  // namespace folio
