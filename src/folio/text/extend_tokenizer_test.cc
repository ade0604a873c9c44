#include "folio/text/extend_tokenizer.h"

#include <gtest/gtest.h>

#include "folio/text/byte_tokenizer.h"
#include "folio/text/char_tokenizer.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

using Texts = std::vector<std::string>;
using Ids = std::vector<int32_t>;

TEST(WithSpecialTokens, KeepsWhatWasThere) {
  const ByteTokenizer bytes;
  const auto extended = WithSpecialTokens(bytes, Texts{"<|user|>", "<\xC3\xA4>"});
  ASSERT_EQ(extended->vocab_size(), 259);
  for (int32_t id = 0; id < 257; ++id) EXPECT_EQ(extended->TokenBytes(id), bytes.TokenBytes(id));
  EXPECT_EQ(extended->end_of_text(), 256);
  const std::string text = "Is it  <|user|>?\n\xFF";
  EXPECT_EQ(extended->EncodeOrdinary(text), bytes.EncodeOrdinary(text));
  EXPECT_EQ(extended->Encode("a<\xC3\xA4><|user|><|endoftext|>", "text", SpecialRule::Allow()),
            (Ids{97, 258, 257, 256}));
  const auto again = WithSpecialTokens(*extended, Texts{"<|end|>"});
  EXPECT_EQ(again->vocab_size(), 260);
  EXPECT_EQ(again->special_tokens().size(), 4);
  EXPECT_NE(again->hash(), extended->hash());
}

TEST(WithSpecialTokens, RefusesWhatCannotBeOne) {
  const ByteTokenizer bytes;
  for (const std::string& text : Texts{"", "a", "<|endoftext|>", "\xC3"}) {
    EXPECT_EQ(Refused([&] { WithSpecialTokens(bytes, Texts{text}); }, ErrorKind::kUsage).kind(),
              ErrorKind::kUsage)
        << text;
  }
  Refused([&] { WithSpecialTokens(bytes, Texts{"<x>", "<x>"}); }, ErrorKind::kUsage);
  const CharTokenizer chars({U'a', U'b', U'c'});
  Refused([&] { WithSpecialTokens(chars, Texts{"b"}); }, ErrorKind::kUsage);
  EXPECT_EQ(WithSpecialTokens(chars, Texts{"d"})->vocab_size(), 4);
}

}  // namespace
}  // namespace folio
