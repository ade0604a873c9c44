#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "folio/base/error.h"
#include "folio/lesson/lessons.h"
#include "folio/lesson/test_walks.h"
#include "folio/report/report.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/char_tokenizer.h"
#include "folio/text/test_vocab.h"

namespace folio {
namespace {

using Numbers = std::vector<double>;

Numbers Encoded(const Tokenizer& tokenizer, std::string_view text) {
  const std::vector<int32_t> ids = tokenizer.Encode(text, "text", SpecialRule::Allow());
  return {ids.begin(), ids.end()};
}

const BpeTokenizer& SmallTokenizer() {
  static const BpeTokenizer tokenizer(SmallVocab());
  return tokenizer;
}

TEST(Tokenize, IdsAreTheTokenizers) {
  const BpeTokenizer learnt(LearntVocab(1, 400));
  for (const std::string_view text : {"hello world", "h", "  hello\n\n", "caf\xC3\xA9",
                                      "\xFF\xE6\x97 \xC3", "abab-ab'sab 中文"}) {
    for (const Tokenizer* tokenizer :
         std::initializer_list<const Tokenizer*>{&SmallTokenizer(), &learnt}) {
      const Report walk = ExplainTokenize(*tokenizer, text);
      EXPECT_EQ(NumbersOf(walk, "ids"), Encoded(*tokenizer, text)) << text;
      EXPECT_EQ(StepOf(walk, "bytes").values.columns(), std::ssize(text));
      EXPECT_EQ(NumbersOf(walk, "sizes")[0], static_cast<double>(text.size()));
    }
  }
}

TEST(Tokenize, PretokensAndMergesLeadToTheIds) {
  const Report walk = ExplainTokenize(SmallTokenizer(), "hello world");
  EXPECT_EQ(StepOf(walk, "pieces").values.column_labels,
            (std::vector<std::string>{"hello", "·world"}));
  const Matrix& merges = StepOf(walk, "merges of “hello”").values;
  ASSERT_EQ(merges.shape, (std::vector<int64_t>{4, 4}));
  EXPECT_EQ(merges.row_labels,
            (std::vector<std::string>{"[he] l l o", "he [ll] o", "[hell] o", "[hello]"}));
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(merges.values[4 * i], static_cast<double>(i));
  EXPECT_EQ(merges.values.back(), Encoded(SmallTokenizer(), "hello")[0]);
  EXPECT_EQ(StepOf(walk, "merges of “hello”").formula, "h e l l o → 1 token");
}

TEST(Tokenize, PretokensEndBeforeASpecialToken) {
  const Report walk = ExplainTokenize(SmallTokenizer(), "hello  <|endoftext|>  hello");
  EXPECT_EQ(StepOf(walk, "pieces").values.column_labels,
            (std::vector<std::string>{"hello", "··", "<|endoftext|>", "·", "·hello"}));
}

TEST(Tokenize, IdsAreDrawnBelowTheirTokens) {
  const auto figures = ReportFigures(ExplainTokenize(SmallTokenizer(), "hello world"));
  ASSERT_EQ(figures.size(), 1u);
  const std::string& svg = figures.front().second;
  const size_t token = svg.find(">hello<");
  ASSERT_NE(token, std::string::npos);
  const std::string id = fmt::format(">{:.0f}<", Encoded(SmallTokenizer(), "hello")[0]);
  EXPECT_GT(svg.find(id, token), token);
  EXPECT_NE(svg.find(id, token), std::string::npos);
}

TEST(Tokenize, SpecialTokensAreTakenWhole) {
  const std::string text = "hello<|endoftext|>hello";
  const Report walk = ExplainTokenize(SmallTokenizer(), text);
  EXPECT_EQ(NumbersOf(walk, "ids"), Encoded(SmallTokenizer(), text));
  const ReportPart& pretokens = StepOf(walk, "pieces");
  EXPECT_EQ(pretokens.values.column_labels,
            (std::vector<std::string>{"hello", "<|endoftext|>", "hello"}));
  EXPECT_NE(pretokens.text.find("special token"), std::string::npos);
  // Equal pretokens are shown once, and the special token without merges.
  EXPECT_EQ(std::ranges::count_if(walk.parts,
                                  [](const ReportPart& s) { return s.name.starts_with("merges"); }),
            1);
}

TEST(Tokenize, WholePretokensAreNotMadeOfMerges) {
  const BpeTokenizer tokenizer(ImproperVocab(true));
  // The first has no pair to merge, and the second many.
  for (const std::string pretoken : {"acb", "abcabcabcabcabcabcab"}) {
    const Report walk = ExplainTokenize(tokenizer, pretoken);
    EXPECT_EQ(NumbersOf(walk, "ids"), Encoded(tokenizer, pretoken));
    EXPECT_EQ(StepOf(walk, "ids").values.columns(), 1);
    const ReportPart& merges = StepOf(walk, "merges of “" + pretoken + "”");
    EXPECT_EQ(merges.values.values, Encoded(tokenizer, pretoken));
    EXPECT_NE(merges.text.find("whole piece"), std::string::npos);
  }
}

TEST(Tokenize, PretokensWithoutMergesStayBytes) {
  const Report walk = ExplainTokenize(SmallTokenizer(), "xyz");
  const ReportPart& step = StepOf(walk, "merges of “xyz”");
  EXPECT_EQ(step.values.columns(), 3);
  EXPECT_EQ(step.formula, "no merge");
}

TEST(Tokenize, LongPretokensAreNotWalkedThrough) {
  const std::string text(5000, 'l');
  const Report walk = ExplainTokenize(SmallTokenizer(), text);
  EXPECT_EQ(StepOf(walk, "ids").values.columns(), 2500);
  EXPECT_EQ(walk.parts.size(), 4u);
}

TEST(Tokenize, CharactersAndBytes) {
  const CharTokenizer chars({'a', 'b', 0xE9});
  const Report walk = ExplainTokenize(chars, "b\xC3\xA9");
  EXPECT_EQ(NumbersOf(walk, "characters"), (Numbers{'b', 0xE9}));
  EXPECT_EQ(NumbersOf(walk, "ids"), (Numbers{1, 2}));
  EXPECT_EQ(StepOf(walk, "ids").values.column_labels[1], "é");
  EXPECT_THROW(ExplainTokenize(chars, "abc"), Error);
  const ByteTokenizer bytes;
  const Report raw = ExplainTokenize(bytes, "a\xFF");
  EXPECT_EQ(NumbersOf(raw, "ids"), (Numbers{'a', 255}));
  EXPECT_EQ(StepOf(raw, "bytes").values.column_labels[1], "<FF>");
}

TEST(Tokenize, AnEmptyTextIsAnError) {
  EXPECT_THROW(ExplainTokenize(SmallTokenizer(), ""), Error);
  EXPECT_THROW(ExplainTokenize(ByteTokenizer(), ""), Error);
}

}  // namespace
}  // namespace folio
