#include "folio/plot/svg.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "tests/kit/expect.h"

namespace folio {
namespace {

TEST(SvgNumber, IsShort) {
  EXPECT_EQ(SvgNumber(12.5), "12.5");
  EXPECT_EQ(SvgNumber(3), "3");
  EXPECT_EQ(SvgNumber(100), "100");
  EXPECT_EQ(SvgNumber(-0.001), "0");
  EXPECT_EQ(SvgNumber(-0.25), "-0.25");
  EXPECT_EQ(SvgNumber(1.0 / 3), "0.33");
  EXPECT_DEATH(SvgNumber(std::nan("")), "not finite");
}

TEST(XmlEscape, LeavesNoMarkup) {
  EXPECT_EQ(XmlEscape("a<b>&\"c\""), "a&lt;b&gt;&amp;&quot;c&quot;");
  EXPECT_EQ(XmlEscape("]]>"), "]]&gt;");
  EXPECT_EQ(XmlEscape("\xC3\xA9\xE4\xBD\xA0\xF0\x9F\x98\x80"),
            "\xC3\xA9\xE4\xBD\xA0\xF0\x9F\x98\x80");
}

TEST(XmlEscape, ReplacesWhatXmlForbids) {
  const std::string mark = "\xEF\xBF\xBD";
  EXPECT_EQ(XmlEscape(std::string_view("a\0b\x1b", 4)), "a" + mark + "b" + mark);
  EXPECT_EQ(XmlEscape("\xff"), mark);
  EXPECT_EQ(XmlEscape("\x7f\xC2\x9F"), mark + mark);
  EXPECT_EQ(XmlEscape("\xC3"), mark);                                   // cut off
  EXPECT_EQ(XmlEscape("\xC0\xAF"), mark + mark);                        // overlong
  EXPECT_EQ(XmlEscape("\xE0\x80\x80"), mark + mark + mark);             // overlong
  EXPECT_EQ(XmlEscape("\xED\xA0\x80"), mark + mark + mark);             // surrogate
  EXPECT_EQ(XmlEscape("\xEF\xBF\xBF"), mark);                           // U+FFFF
  EXPECT_EQ(XmlEscape("\xF4\x90\x80\x80"), mark + mark + mark + mark);  // beyond Unicode
  EXPECT_EQ(XmlEscape("tab\tline\n"), "tab\tline\n");
}

TEST(SvgWriter, NestsAndEscapes) {
  SvgWriter svg(300, 150.5, "a & b");
  svg.Open("g", {{"class", "x\"y"}});
  svg.Text("<t>", 1.25, 2);
  svg.Close();
  const std::string text = std::move(svg).Finish();
  EXPECT_TRUE(Contains(text, "viewBox=\"0 0 300 150.5\"", "<title>a &amp; b</title>",
                       "<g class=\"x&quot;y\">\n<text class=\"ink\" x=\"1.25\" "
                       "y=\"2\">&lt;t&gt;</text>\n</g>\n</svg>\n"));
}

TEST(SvgWriter, UnbalancedUseIsRefused) {
  SvgWriter svg(300, 150, "");
  svg.Open("g");
  EXPECT_DEATH(std::move(svg).Finish(), "left open");
}

TEST(FitText, CutsWholeCharacters) {
  EXPECT_EQ(FitText("short", 12, 100), "short");
  const std::string accents = "\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9";
  for (double width : {0.0, 15.0, 20.0, 30.0, 40.0}) {
    const std::string fitted = FitText(accents, 12, width);
    EXPECT_TRUE(fitted.ends_with("\xE2\x80\xA6"));
    EXPECT_EQ((fitted.size() - 3) % 2, 0u);
    EXPECT_LE(TextWidth(fitted, 12), std::max(width, 12.0));
  }
}

TEST(WrapText, BreaksAtSpacesAndCutsWhatIsLeft) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(WrapText("one two  three", 12, 1000, 3), Lines{"one two three"});
  EXPECT_EQ(WrapText("one two three", 12, TextWidth("one two", 12), 3),
            (Lines{"one two", "three"}));
  EXPECT_EQ(WrapText("", 12, 100, 3), Lines{});
  EXPECT_EQ(WrapText(" \n", 12, 100, 3), Lines{});
  const Lines lines = WrapText("aaaa bbbb cccccccccccccccccc dddd eeee", 12, 60, 3);
  ASSERT_EQ(lines.size(), 3u);
  for (const std::string& line : lines) EXPECT_LE(TextWidth(line, 12), 60);
  EXPECT_TRUE(lines[2].ends_with("\xE2\x80\xA6"));
}

TEST(TextWidth, KnowsWideCharacters) {
  EXPECT_GT(TextWidth("\xF0\x9F\x98\x80", 10), TextWidth("\xE4\xBD\xA0", 10));
  EXPECT_GT(TextWidth("\xE4\xBD\xA0", 10), TextWidth("n", 10));
  EXPECT_GT(TextWidth("\xff", 10), TextWidth("n", 10));  // drawn as U+FFFD
}

}  // namespace
}  // namespace folio
