#include "folio/base/visible.h"

#include <gtest/gtest.h>

#include <string>

namespace folio {
namespace {

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
  // Conceal, blink, commands, titles, and what does not end.
  for (const std::string text :
       {"\x1b[8m", "\x1b[5m", "\x1b[1;8m", "\x1b[2J", "\x1b[m", "\x1b[1", "\x1b[;m", "\x1b[1;m",
        "\x1b[-1m", "\x1b[38;2;1m", "\x1b[38;5m", "\x1b]0;title\a",
        "\x1b[1;31;1;31;1;31;1;31;1;31;1;31;1;31;1;31;1m", "\x1b"}) {
    EXPECT_EQ(Visible(text, styled).find('\x1b'), std::string::npos) << Visible(text);
  }
}

}  // namespace
}  // namespace folio
