#include "folio/text/byte_tokenizer.h"

#include <gtest/gtest.h>

namespace folio {
namespace {

TEST(ByteTokenizer, EveryByteIsItsOwnToken) {
  const ByteTokenizer tokenizer;
  std::string all;
  for (int b = 255; b >= 0; --b) all.push_back(static_cast<char>(b));
  const std::vector<int32_t> ids = tokenizer.Encode(all);
  ASSERT_EQ(ids.size(), 256u);
  for (int i = 0; i < 256; ++i) EXPECT_EQ(ids[static_cast<size_t>(i)], 255 - i);
  EXPECT_EQ(tokenizer.Decode(ids), all);
}

TEST(ByteTokenizer, EndOfTextComesFromTextOnlyWhereItIsAllowed) {
  const ByteTokenizer tokenizer;
  const std::string name = "<|endoftext|>";
  EXPECT_EQ(tokenizer.EncodeOrdinary(name).size(), name.size());
  EXPECT_THROW(tokenizer.Encode(name), Error);
  EXPECT_EQ(tokenizer.Encode("a" + name, "text", SpecialRule::Allow()),
            (std::vector<int32_t>{'a', 256}));
  EXPECT_EQ(tokenizer.end_of_text(), 256);
  EXPECT_EQ(tokenizer.TokenBytes(256), name);
  EXPECT_EQ(tokenizer.vocab_size(), 257);
  EXPECT_THROW(tokenizer.TokenBytes(257), Error);
  EXPECT_THROW(tokenizer.TokenBytes(-1), Error);
}

}  // namespace
}  // namespace folio
