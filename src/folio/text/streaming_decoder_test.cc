#include "folio/text/streaming_decoder.h"

#include <gtest/gtest.h>

#include "folio/base/rng.h"
#include "folio/text/byte_tokenizer.h"

namespace folio {
namespace {

TEST(StreamingDecoder, ShowsACharacterOnlyWhenItIsWhole) {
  const ByteTokenizer tokenizer;
  StreamingDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.Add('a'), "a");
  EXPECT_EQ(decoder.Add(0xE2), "");
  EXPECT_EQ(decoder.Add(0x82), "");
  EXPECT_EQ(decoder.Add(0xAC), "\u20AC");
  EXPECT_EQ(decoder.Add(0xF0), "");
  EXPECT_EQ(decoder.Add('b'), "\uFFFDb") << "the beginning of a character that did not come";
  EXPECT_EQ(decoder.Add(0xC3), "");
  EXPECT_EQ(decoder.Flush(), "\uFFFD");
  EXPECT_EQ(decoder.Flush(), "");
  EXPECT_EQ(decoder.Add('c'), "c");
}

TEST(StreamingDecoder, PiecesPutTogetherAreTheWholeReplaced) {
  const ByteTokenizer tokenizer;
  // Bytes that often almost make characters.
  constexpr int kBytes[] = {0x41, 0x80, 0x9F, 0xA0, 0xBF, 0xC3, 0xE0, 0xE2,
                            0xED, 0xEF, 0xF0, 0xF1, 0xF4, 0xFF, 0x8F, 0x90};
  for (uint64_t trial = 0; trial < 2000; ++trial) {
    const CounterRng rng(7, trial);
    StreamingDecoder decoder(tokenizer);
    std::string bytes;
    std::string text;
    const uint64_t length = rng.Below(99, 12);
    for (uint64_t i = 0; i < length; ++i) {
      const int b = kBytes[rng.Below(i, 16)];
      bytes.push_back(static_cast<char>(b));
      const std::string piece = decoder.Add(b);
      EXPECT_EQ(FindInvalidUtf8(piece), std::string::npos);
      text += piece;
    }
    text += decoder.Flush();
    EXPECT_EQ(text, ReplaceInvalidUtf8(bytes));
  }
}

}  // namespace
}  // namespace folio
