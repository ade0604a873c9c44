#include "folio/term/terminal_text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace folio {
namespace {

TEST(TerminalText, WidthsAreOfCharactersNotBytes) {
  EXPECT_EQ(DisplayWidth("scores"), 6);
  EXPECT_EQ(DisplayWidth("√ᵀ"), 2);
  EXPECT_EQ(DisplayWidth("日本"), 4);
  EXPECT_EQ(DisplayWidth("e\u0301"), 1);
  for (const char* wide : {"\u2705", "\U0001F600", "\U0001FAE0", "\U00020000", "한", "ａ"}) {
    EXPECT_EQ(DisplayWidth(wide), 2) << wide;
  }
  for (const char* none : {"\u200B", "\u200D", "\uFE0F", "\u0E31", "\u0301"}) {
    EXPECT_EQ(DisplayWidth(none), 0) << none;
  }
  EXPECT_EQ(DisplayWidth("\x1b[38;5;16;48;5;75mab\x1b[0m "), 3);
  EXPECT_EQ(FitColumns({.utf8 = true}, "日本語", 4), "日… ");
  EXPECT_EQ(FitColumns({.utf8 = true}, "ab", 4), "ab  ");
  EXPECT_EQ(FitColumns({.is_terminal = true}, "·abcdef", 4), "_ab~");
  EXPECT_EQ(Spelled({.is_terminal = true}, "·abc×"), "_abcx");
  EXPECT_EQ(Spelled({}, "·abc×"), "·abc×");
  EXPECT_EQ(TerminalLabel("日本語", 5, true), "日本…");
  EXPECT_EQ(TerminalLabel("日本語", 4, true), "日…");
  EXPECT_EQ(TerminalLabel("abcdef", 4, false), "abc~");
  EXPECT_EQ(PadLeft("日", 4), "  日");
  EXPECT_EQ(PadRight("日", 4), "日  ");
}

TEST(TerminalText, HeatIsColourOrASign) {
  const Terminal colour{.is_terminal = true, .color = true, .utf8 = true};
  EXPECT_EQ(Heated(colour, 0, "x"), "x");
  EXPECT_EQ(Heated(colour, -3, "x"), "x");
  EXPECT_NE(Heated(colour, 0.3, "x"), Heated(colour, 0.9, "x"));
  EXPECT_EQ(Heated(colour, 1.5, "x"), Heated(colour, 1, "x"));
  EXPECT_EQ(Heated({}, 1, "x"), "x");
  EXPECT_EQ(ShadeSign(colour, 0), "·");
  EXPECT_EQ(ShadeSign(colour, 1), "█");
  EXPECT_EQ(ShadeSign({.is_terminal = true}, 1), "#");
}

TEST(TerminalText, FormulasHaveAnAsciiSpelling) {
  EXPECT_EQ(ToAscii("q · kᵀ / √512, −∞"), "q * k^T / sqrt(512), -inf");
  EXPECT_EQ(ToAscii("√(d + 1) Σ σ² ≤ x₁₂"), "sqrt(d + 1) sum sigma^2 <= x_1_2");
  EXPECT_EQ(ToAscii("1/√D"), "1/sqrt(D)");
  EXPECT_EQ(ToAscii("√Σ x²"), "sqrt sum x^2");
}

TEST(TerminalText, WrapsAtSpaces) {
  EXPECT_EQ(WrapLines("aa bb  cccccc d", 5), (std::vector<std::string>{"aa bb", "cccccc", "d"}));
  EXPECT_TRUE(WrapLines("", 5).empty());
}

}  // namespace
}  // namespace folio
