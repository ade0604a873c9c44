#include "folio/base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace folio {
namespace {

std::string Bytes(std::initializer_list<int> bytes) {
  std::string text;
  for (const int b : bytes) text.push_back(static_cast<char>(b));
  return text;
}

// Every scalar value survives; every surrogate and everything beyond is refused.
TEST(Utf8, EveryScalarValueRoundTrips) {
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    std::string text;
    AppendUtf8(code, text);
    const Utf8Char c = DecodeUtf8(text);
    ASSERT_EQ(c.status, Utf8Status::kValid) << static_cast<uint32_t>(code);
    ASSERT_EQ(c.code, code);
    ASSERT_EQ(c.length, text.size());
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const Utf8Char part = DecodeUtf8(std::string_view(text).substr(0, cut));
      ASSERT_EQ(part.status, Utf8Status::kIncomplete) << static_cast<uint32_t>(code);
      ASSERT_EQ(part.length, cut);
    }
  }
}

TEST(Utf8, RefusesSurrogatesOverlongFormsAndWhatLiesBeyondUnicode) {
  for (const std::string& text :
       {Bytes({0xED, 0xA0, 0x80}), Bytes({0xED, 0xBF, 0xBF}), Bytes({0xC0, 0x80}),
        Bytes({0xC1, 0xBF}), Bytes({0xE0, 0x9F, 0xBF}), Bytes({0xF0, 0x8F, 0xBF, 0xBF}),
        Bytes({0xF4, 0x90, 0x80, 0x80}), Bytes({0xF5, 0x80}), Bytes({0xFF}), Bytes({0x80})}) {
    const Utf8Char c = DecodeUtf8(text);
    EXPECT_EQ(c.status, Utf8Status::kInvalid);
    EXPECT_EQ(c.length, 1u);
    EXPECT_EQ(FindInvalidUtf8(text), 0u);
  }
}

// The example of the Unicode Standard, table 3-8, and those of 3-9 to 3-11.
TEST(Utf8, ReplacesEachMaximalSubpartOnce) {
  const auto replaced = [](std::initializer_list<int> bytes) {
    return ReplaceInvalidUtf8(Bytes(bytes));
  };
  const std::string r = "\uFFFD";
  EXPECT_EQ(
      replaced({0x61, 0xF1, 0x80, 0x80, 0xE1, 0x80, 0xC2, 0x62, 0x80, 0x63, 0x80, 0xBF, 0x64}),
      "a" + r + r + r + "b" + r + "c" + r + r + "d");
  EXPECT_EQ(replaced({0xC0, 0xAF, 0xE0, 0x80, 0xBF, 0xF0, 0x81, 0x82, 0x41}),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(replaced({0xED, 0xA0, 0x80, 0xED, 0xBF, 0xBF, 0xED, 0xAF, 0x41}),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(replaced({0xE1, 0x80, 0xE2, 0xF0, 0x91, 0x92, 0xF1, 0xBF, 0x41}), r + r + r + r + "A");
}

TEST(Utf8, CompletePrefixHoldsBackOnlyWhatCanBeCompleted) {
  const std::string euro = "\u20AC";
  const std::string smile = "\U0001F600";
  EXPECT_EQ(CompleteUtf8Prefix(""), 0u);
  EXPECT_EQ(CompleteUtf8Prefix("ab"), 2u);
  EXPECT_EQ(CompleteUtf8Prefix(euro), 3u);
  for (size_t cut = 1; cut < smile.size(); ++cut) {
    EXPECT_EQ(CompleteUtf8Prefix("a" + smile.substr(0, cut)), 1u) << cut;
    EXPECT_EQ(CompleteUtf8Prefix(smile.substr(0, cut)), 0u) << cut;
  }
  EXPECT_EQ(CompleteUtf8Prefix(smile), 4u);
  EXPECT_EQ(CompleteUtf8Prefix(Bytes({0x80, 0x80, 0x80, 0x80})), 4u);
  EXPECT_EQ(CompleteUtf8Prefix(Bytes({0xE0, 0x80})), 2u) << "an overlong form cannot be completed";
  EXPECT_EQ(CompleteUtf8Prefix(Bytes({0xC3, 0xA9, 0x80})), 3u) << "a stray continuation";
  EXPECT_EQ(CompleteUtf8Prefix(Bytes({0x61, 0xFF})), 2u);
}

TEST(Utf8, QuotesWhatPrintsAndNamesWhatDoesNot) {
  EXPECT_EQ(QuoteChar(U'z'), "'z' (U+007A)");
  EXPECT_EQ(QuoteChar(U'\u00E9'), "'\u00E9' (U+00E9)");
  EXPECT_EQ(QuoteChar(U'\U0001F600'), "'\U0001F600' (U+1F600)");
  EXPECT_EQ(QuoteChar(U'\n'), "U+000A");
  EXPECT_EQ(QuoteChar(0x1B), "U+001B");
  EXPECT_EQ(QuoteChar(0x202E), "U+202E");
  EXPECT_EQ(QuoteChar(0x301), "U+0301");
  EXPECT_EQ(QuoteChar(0xE000), "U+E000");
}

TEST(Utf8, PositionCountsLinesAndCharacters) {
  TextPosition position;
  position.Advance("ab\u00E9");
  EXPECT_EQ(position.line, 1);
  EXPECT_EQ(position.column, 4);
  EXPECT_EQ(position.byte, 4);
  position.Advance("x\n\ny\u20AC");
  EXPECT_EQ(position.line, 3);
  EXPECT_EQ(position.column, 3);
  EXPECT_EQ(position.byte, 11);
}

TEST(VisibleText, IsWhatPrintsByItself) {
  for (const char* text : {"", "plain", "two\nlines\tand a tab", "Ж漢 שלום 👍\u00A0½", "a\\u001b"}) {
    EXPECT_EQ(Visible(text), text);
  }
}

TEST(VisibleText, HasControlsAsEscapes) {
  EXPECT_EQ(Visible(std::string_view("\0a\x1b[2J\a\r\x7f", 9)),
            "\\u0000a\\u001b[2J\\u0007\\u000d\\u007f");
  EXPECT_EQ(Visible("\u0080\u009b1m\u009f"), "\\u0080\\u009b1m\\u009f");
  EXPECT_EQ(Visible("a\u202eb\u2066c\u2069\u200f\u061c"), "a\\u202eb\\u2066c\\u2069\\u200f\\u061c");
  EXPECT_EQ(Visible("a\xff"
                    "b\xe2\x82"),
            "a\\xffb\\xe2\\x82");
  EXPECT_EQ(Visible("\x9b"
                    "2J"),
            "\\x9b2J");
}

TEST(VisibleText, IsOnOneLineWhereItShould) {
  EXPECT_EQ(Visible("a\nb\tc", {.lines = false}), "a\\u000ab\\u0009c");
}

TEST(VisibleText, KeepsStylesAndNothingThatLooksLikeThem) {
  const VisibleRule styled{.styles = true};
  for (const char* text : {"\x1b[1;31merror:\x1b[0m", "\x1b[48;5;202;38;5;16m x\x1b[0m",
                           "\x1b[38;5;16;48;5;71m\x1b[1;4m"}) {
    EXPECT_EQ(Visible(text, styled), text);
    EXPECT_EQ(Visible(text).find('\x1b'), std::string::npos);
  }
  // Conceal, blink, commands, titles, and unterminated ones.
  for (const std::string text :
       {"\x1b[8m", "\x1b[5m", "\x1b[1;8m", "\x1b[2J", "\x1b[m", "\x1b[1", "\x1b[;m", "\x1b[1;m",
        "\x1b[-1m", "\x1b[38;2;1m", "\x1b[38;5m", "\x1b]0;title\a",
        "\x1b[1;31;1;31;1;31;1;31;1;31;1;31;1;31;1;31;1m", "\x1b"}) {
    EXPECT_EQ(Visible(text, styled).find('\x1b'), std::string::npos) << Visible(text);
  }
}

}  // namespace
}  // namespace folio
