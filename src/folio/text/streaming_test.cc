#include "folio/text/streaming.h"

#include <gtest/gtest.h>

#include "folio/base/rng.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/char_tokenizer.h"
#include "folio/text/test_pair_tokenizer.h"
#include "folio/text/test_tokenizer_properties.h"
#include "tests/kit/expect.h"
#include "tests/kit/sanitized.h"

namespace folio {
namespace {

using Ids = std::vector<int32_t>;

// Returns the ids of all pieces of a text together, each of `length` bytes.
Ids Stream(StreamingEncoder& encoder, std::string_view text, size_t length) {
  Ids ids;
  for (size_t at = 0; at < text.size(); at += length) encoder.Add(text.substr(at, length), ids);
  encoder.Finish(ids);
  return ids;
}

TEST(StreamingEncoder, HoldsBackWhatIsNotCertainAndNothingElse) {
  const PairTokenizer tokenizer;
  StreamingEncoder encoder(tokenizer, "text", SpecialRule::Allow());
  Ids ids;
  encoder.Add("ab", ids);
  EXPECT_EQ(ids, Ids{});
  EXPECT_EQ(encoder.held(), 2u);
  encoder.Add("c d", ids);
  EXPECT_EQ(ids, (Ids{Pair('a', 'b'), 'c'}));
  EXPECT_EQ(encoder.held(), 2u);
  encoder.Add("e  <|en", ids);
  EXPECT_EQ(ids.size(), 4u);
  EXPECT_EQ(encoder.held(), 6u) << "the beginning of a special token, and the space before it";
  encoder.Add("d|>", ids);
  EXPECT_EQ(encoder.held(), 0u);
  EXPECT_EQ(ids, (Ids{Pair('a', 'b'), 'c', Pair(' ', 'd'), 'e', Pair(' ', ' '), kEnd}));
  encoder.Add("<|end|", ids);
  ids.clear();
  encoder.Finish(ids);
  EXPECT_EQ(ids, tokenizer.EncodeOrdinary("<|end|"));
  ids.clear();
  encoder.Finish(ids);
  EXPECT_EQ(ids, Ids{}) << "a text without a piece";
}

TEST(StreamingEncoder, TheEndOfALongWordIsSeenAtOnce) {
  const PairTokenizer tokenizer;
  StreamingEncoder encoder(tokenizer);
  Ids ids;
  encoder.Add(std::string(1000, 'x'), ids);
  encoder.Add("yz", ids);
  encoder.Add("y", ids);
  EXPECT_EQ(encoder.held(), 1003u);
  encoder.Add(" ", ids);
  EXPECT_EQ(encoder.held(), 1u);
  EXPECT_EQ(ids.size(), 502u);
}

TEST(StreamingEncoder, OverlappingSpecialTokensAreThoseOfTheWholeText) {
  const std::vector<std::vector<std::string>> sets = {
      {"<|a|>", "<|a|>b", "|>c", "<|a|>bcd<"}, {"ab", "aab", "abaabb", "b "}, {"aaaa", "aa"}};
  TestRng rng(8);
  for (const auto& set : sets) {
    const PairTokenizer tokenizer(set);
    std::vector<std::string> parts = {"a", "b", " ", "  ", "<|a", "|>", "c"};
    parts.insert(parts.end(), set.begin(), set.end());
    for (int trial = 0; trial < 1000; ++trial) {
      const std::string text = RandomText(parts, rng.Below(25), rng);
      for (const SpecialRule& rule :
           {SpecialRule::Allow(), SpecialRule{.allow = {set[1]}, .disallow_all = false}}) {
        ASSERT_TRUE(EncodeMatchesStreaming(tokenizer, text, rng, 1 + rng.Below(6), rule)) << text;
      }
    }
  }
}

TEST(StreamingEncoder, RaisesForTheTextsThatRaiseAsAWhole) {
  const std::vector<std::string> set = {"ab", "aab", "abaabb", "b "};
  const PairTokenizer tokenizer(set);
  TestRng rng(9);
  int raised = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    const std::string text = RandomText({"a", "a", " ", "b", "cc", "\n"}, rng.Below(14), rng);
    const SpecialRule rule = {.allow = {set[rng.Below(2) * 2], "aab"}};
    const auto raises = [](auto&& f) {
      try {
        f();
      } catch (const Error&) {
        return true;
      }
      return false;
    };
    const bool whole = raises([&] { tokenizer.Encode(text, "x", rule); });
    StreamingEncoder encoder(tokenizer, "x", rule);
    const size_t length = 1 + rng.Below(4);
    ASSERT_EQ(raises([&] { Stream(encoder, text, length); }), whole) << text;
    raised += whole ? 1 : 0;
  }
  EXPECT_GT(raised, 200);
  EXPECT_LT(raised, 1800);
}

TEST(StreamingEncoder, SaysWhereADisallowedSpecialTokenIsHoweverItIsCut) {
  const PairTokenizer tokenizer;
  const std::string text = "ab\nc\u00E9  d\nef <|end|> g";
  for (size_t length = 1; length <= text.size(); ++length) {
    StreamingEncoder encoder(tokenizer, "x.txt", SpecialRule::Raise());
    EXPECT_TRUE(Contains(ErrorOf([&] { Stream(encoder, text, length); }), "x.txt:3:4: ", "<|end|>"))
        << length;
  }
}

TEST(StreamingEncoder, SaysWhereThereIsNoTokenAsSoonAsItIsMet) {
  const CharTokenizer letters({U'\n', U'a', U'\u20AC'});
  const std::string text = "a\na\u20AC\n\u20ACaa\u00E9" + std::string(200, 'a');
  for (size_t length = 1; length <= 20; ++length) {
    StreamingEncoder encoder(letters, "x.txt");
    Ids ids;
    const auto stream = [&] {
      for (size_t at = 0; at < text.size(); at += length) {
        encoder.Add(std::string_view(text).substr(at, length), ids);
      }
    };
    EXPECT_TRUE(Contains(ErrorOf(stream), "x.txt:3:4: ", "U+00E9")) << length;
    EXPECT_EQ(ids.size(), 8u) << length;
  }
}

TEST(StreamingEncoder, ATextThatEndsInsideACharacter) {
  const CharTokenizer letters({U'a', U'\u20AC'});
  for (const size_t length : {1u, 2u, 9u}) {
    const auto error = [&](const std::string& text) {
      StreamingEncoder encoder(letters, "x.txt");
      return ErrorOf([&] { Stream(encoder, text, length); });
    };
    EXPECT_TRUE(Contains(error("aa\u20AC\xE2\x82"), "x.txt: not UTF-8", "offset 5 "));
    EXPECT_TRUE(Contains(error("a\xE2\x82z"), "x.txt: not UTF-8", "offset 1 "));
    const ByteTokenizer tokenizer;
    StreamingEncoder bytes(tokenizer);
    EXPECT_EQ(Stream(bytes, "a\xE2\x82", length), (Ids{'a', 0xE2, 0x82}));
  }
}

TEST(StreamingEncoder, PositionsBeginAgainWithAnotherText) {
  const CharTokenizer letters({U'\n', U'a'});
  StreamingEncoder encoder(letters, "x.txt");
  Ids ids;
  encoder.Add("a\na\n", ids);
  encoder.Finish(ids);
  EXPECT_TRUE(Contains(ErrorOf([&] { encoder.Add("ab", ids); }), "x.txt:1:2: "));
}

TEST(StreamingEncoder, WorkIsLinearHoweverTheTextIsCut) {
  constexpr size_t kLength = kSanitized ? 60'000 : 300'000;
  TestRng rng(6);
  const std::string words = RandomText({"a", "bc ", " ", "def", "\n"}, kLength / 3, rng);
  const std::string giant(kLength, 'x');
  const std::string spaces(kLength, ' ');
  const std::string then_words = giant + words;
  for (const std::string* text : {&words, &giant, &spaces, &then_words}) {
    for (const size_t length : {1u, 3u, 64u, 4096u}) {
      const PairTokenizer tokenizer;
      StreamingEncoder encoder(tokenizer, "text", SpecialRule::Allow());
      const Ids ids = Stream(encoder, *text, length);
      // Words are short: an incomplete one is examined with every byte.
      const size_t most = text->size() * (length == 1 && text == &words ? 20 : 4) + kLength / 3;
      EXPECT_LT(tokenizer.work, most) << length;
      EXPECT_EQ(ids, tokenizer.EncodeOrdinary(*text));
    }
  }
}

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
  // Bytes that often almost form characters.
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
