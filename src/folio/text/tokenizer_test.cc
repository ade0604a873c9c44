#include "folio/text/tokenizer.h"

#include <gtest/gtest.h>

#include "folio/io/file.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/char_tokenizer.h"
#include "folio/text/test_pair_tokenizer.h"
#include "folio/text/test_tokenizer_properties.h"
#include "tests/kit/expect.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

using Ids = std::vector<int32_t>;

TEST(Tokenizer, TextOnEitherSideOfASpecialTokenIsEncodedByItself) {
  const PairTokenizer tokenizer;
  const SpecialRule allow = SpecialRule::Allow();
  EXPECT_EQ(tokenizer.Encode("ab  c", "text", allow), (Ids{Pair('a', 'b'), ' ', Pair(' ', 'c')}));
  EXPECT_EQ(tokenizer.Encode("ab  <|end|>c<|end|>", "text", allow),
            (Ids{Pair('a', 'b'), Pair(' ', ' '), kEnd, 'c', kEnd}));
  EXPECT_EQ(tokenizer.Encode("<|end|>", "text", allow), Ids{kEnd});
  EXPECT_EQ(tokenizer.Encode("", "text", allow), Ids{});
  EXPECT_EQ(tokenizer.EncodeOrdinary("<|end|>").size(), 4u);
  EXPECT_EQ(tokenizer.Encode("<|end|>", "text", SpecialRule::Ordinary()).size(), 4u);
}

TEST(Tokenizer, ADisallowedSpecialTokenIsAnErrorBeforeAnythingIsEncoded) {
  const PairTokenizer tokenizer({"<|end|>", "<|fim|>"});
  EXPECT_THROW(tokenizer.Encode("abc <|fim|>"), Error);
  EXPECT_THROW(tokenizer.Encode("abc <|end|> <|fim|>", "text", {.allow = {"<|end|>"}}), Error);
  EXPECT_EQ(tokenizer.work, 0u);
  EXPECT_EQ(tokenizer.Encode("<|end|>", "text", {.allow = {"<|end|>"}}), Ids{kEnd});
  // Neither allowed nor disallowed: ordinary text.
  const SpecialRule rule = {.allow = {"<|end|>"}, .disallow_all = false};
  EXPECT_EQ(tokenizer.Encode("<|fim|><|end|>", "text", rule).size(), 4u + 1);
}

TEST(Tokenizer, SaysWhereItHasNoTokenAlsoBehindASpecialToken) {
  const CharTokenizer letters({U'\n', U'a', U'b'});
  const std::string text = "ab\nb\u00E9";
  EXPECT_TRUE(Contains(ErrorOf([&] { letters.Encode(text, "x.txt"); }), "x.txt:2:2: ", "U+00E9"));
  EXPECT_TRUE(Contains(ErrorOf([&] { letters.EncodeOrdinary(text, "x.txt"); }), "x.txt:2:2: "));
  const std::string longer = std::string(300'000, 'a') + "\n" + std::string(300'000, 'b');
  EXPECT_EQ(letters.Count(longer), 600'001);
  EXPECT_TRUE(Contains(ErrorOf([&] { letters.Count(longer + "c", "x.txt"); }), "x.txt:2:300001: "));
}

TEST(Tokenizer, CountsALongTextPieceByPieceAlsoWithoutACut) {
  const PairTokenizer tokenizer;
  TestRng rng(3);
  const std::string words = RandomText({"a", "bc", " ", "  ", "def"}, 300'001, rng);
  EXPECT_EQ(tokenizer.Count(words), static_cast<int64_t>(tokenizer.EncodeOrdinary(words).size()));
  EXPECT_EQ(tokenizer.Count(std::string(300'001, 'a')), 150'001);
  EXPECT_EQ(tokenizer.Count(""), 0);
}

TEST(Tokenizer, ATokenInsideACharacterHasItsOffset) {
  const ByteTokenizer bytes;
  // a, e acute, an incomplete character, z.
  const DecodedText decoded = DecodeWithOffsets(bytes, Ids{'a', 0xC3, 0xA9, 0xE2, 0x82, 'z', 256});
  EXPECT_EQ(decoded.text, "a\u00E9\uFFFDz<|endoftext|>");
  EXPECT_EQ(decoded.bytes, (std::vector<size_t>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(decoded.chars, (std::vector<size_t>{0, 1, 1, 2, 2, 3, 4}));
  EXPECT_EQ(DecodeWithOffsets(bytes, {}).text, "");
  EXPECT_THROW(DecodeWithOffsets(bytes, Ids{'a', 257}), Error);
  EXPECT_EQ(bytes.DecodeText(Ids{'a', 0xFF, 0xE2, 0x82, 'z'}), "a\uFFFD\uFFFDz");
}

TEST(Tokenizer, OffsetsAgreeWithCountingForAnyTokens) {
  const ByteTokenizer bytes;
  const PairTokenizer pairs;
  constexpr int32_t kBytes[] = {'a', 0x80, 0xA9, 0xC3, 0xE2, 0x82, 0xF0, 0x9F, 0xFF};
  TestRng rng(11);
  for (int trial = 0; trial < 1000; ++trial) {
    Ids one;
    Ids two;
    for (size_t i = rng.Below(12); i > 0; --i) {
      one.push_back(kBytes[rng.Below(9)]);
      two.push_back(256 + 256 * kBytes[rng.Below(9)] + kBytes[rng.Below(9)]);
    }
    ASSERT_TRUE(OffsetsAgree(bytes, one));
    ASSERT_TRUE(OffsetsAgree(pairs, two));
  }
}

TEST(Tokenizer, HoldsItsProperties) {
  const auto expect_held = [](const Tokenizer& tokenizer, const std::vector<std::string>& parts) {
    TestRng rng(1);
    for (int trial = 0; trial < 500; ++trial) {
      ASSERT_TRUE(TokenizerHolds(tokenizer, RandomText(parts, rng.Below(80), rng), rng));
    }
  };
  expect_held(CharTokenizer({U'\n', U' ', U'a', U'b', U'\u00E9', U'\u20AC', U'\U0001F600'}),
              {"a", "b", " ", "\n", "\u00E9", "\u20AC", "\U0001F600"});
  expect_held(ByteTokenizer(),
              {"a", " ", "\xFF", "\xE2\x82", "\u00E9", "<|endoftext|>", "<|endof"});
  expect_held(PairTokenizer(), {"a", "bc", " ", " ", "   ", "\n", "\xE2", "<|end|>", "<|"});
}

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
