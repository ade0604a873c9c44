#include "folio/text/char_tokenizer.h"

#include <gtest/gtest.h>

#include "folio/io/file.h"
#include "tests/kit/expect.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

void AddText(CharSetBuilder& builder, const std::string& name, std::string_view text,
             size_t piece) {
  builder.BeginText(name);
  for (size_t at = 0; at < text.size(); at += piece) builder.Add(text.substr(at, piece));
  builder.EndText();
}

std::unique_ptr<CharTokenizer> FromText(std::string_view text) {
  CharSetBuilder builder;
  AddText(builder, "text", text, text.size());
  return builder.Build();
}

std::string CauseOf(std::string_view text, size_t piece) {
  CharSetBuilder builder;
  AddText(builder, "good.txt", "\u20AC", 3);
  const auto add = [&] { AddText(builder, "bad.txt", text, piece); };
  const Error error = Refused(add);
  EXPECT_TRUE(Contains(error.what(), "bad.txt"));
  EXPECT_TRUE(Contains(error.help(), "--tokenizer bytes --raw"));
  return error.cause();
}

TEST(CharTokenizer, NumbersCharactersByCodePoint) {
  const auto tokenizer = FromText("b\u20ACa\n\U0001F600b\u00E9a");
  EXPECT_EQ(tokenizer->vocab_size(), 6);
  EXPECT_EQ(tokenizer->Encode("\nab\u00E9\u20AC\U0001F600"),
            (std::vector<int32_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(tokenizer->TokenBytes(4), "\u20AC");
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{5, 0, 3}), "\U0001F600\n\u00E9");
  EXPECT_FALSE(tokenizer->end_of_text().has_value());
}

TEST(CharTokenizer, NamesTheUnknownCharacterAndItsPlace) {
  const auto tokenizer = FromText("abc\n");
  const auto refused = [&](std::string_view text) {
    return Refused([&] { tokenizer->Encode(text, "prompt"); });
  };
  EXPECT_STREQ(refused("abc\na\u00E9").what(),
               "prompt:2:2: no token for the character '\u00E9' (U+00E9)");
  EXPECT_STREQ(refused("ab\xFF").what(), "prompt: not UTF-8 text");
  EXPECT_TRUE(Contains(refused("ab\xFF").cause(), "offset 2"));
  EXPECT_THROW(tokenizer->TokenBytes(4), Error);
  EXPECT_THROW(tokenizer->TokenBytes(-1), Error);
}

TEST(CharTokenizer, PiecesCutInsideCharactersGiveTheSameSet) {
  const std::string text = "a\u00E9\u20AC\U0001F600\u00E9z";
  const auto whole = FromText(text);
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    CharSetBuilder builder;
    AddText(builder, "text", text, piece);
    EXPECT_EQ(builder.characters(), 6) << piece;
    EXPECT_EQ(builder.Build()->hash(), whole->hash()) << piece;
  }
}

TEST(CharTokenizer, SaysWhereATextIsNotUtf8) {
  for (const size_t piece : {1u, 2u, 3u, 100u}) {
    EXPECT_TRUE(Contains(CauseOf("ab\u20AC\xC3(", piece), "offset 5 ")) << piece;
    EXPECT_TRUE(Contains(CauseOf("ab\u20AC\xE2\x82", piece), "offset 5 ")) << piece;
    EXPECT_TRUE(Contains(CauseOf("\xFFzz", piece), "offset 0 ")) << piece;
  }
}

TEST(CharTokenizer, NoTextAtAllIsAnError) {
  EXPECT_THROW(CharSetBuilder().Build(), Error);
}

TEST(CharTokenizer, TinyShakespeareHas65Characters) {
  const std::string path = TestData("tinyshakespeare/input.txt");
  if (path.empty()) GTEST_SKIP() << "tinyshakespeare is not here";
  const std::string text = ReadFile(path);
  const auto tokenizer = FromText(text);
  EXPECT_EQ(tokenizer->vocab_size(), 65);
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text)), text);
}

}  // namespace
}  // namespace folio
