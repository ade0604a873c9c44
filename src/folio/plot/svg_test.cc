#include "folio/plot/svg.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "folio/base/rng.h"
#include "folio/base/strings.h"
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

std::string Labels(const std::vector<Tick>& ticks) {
  std::vector<std::string> labels;
  for (const Tick& tick : ticks) labels.push_back(tick.label);
  return Join(labels, " ");
}

TEST(LinearTicks, StepsAreOneTwoFive) {
  EXPECT_EQ(Labels(LinearTicks(0, 10, 5)), "0 2 4 6 8 10");
  EXPECT_EQ(Labels(LinearTicks(0, 2000, 4)), "0 500 1000 1500 2000");
  EXPECT_EQ(Labels(LinearTicks(1.3, 4.3, 6)), "1.5 2.0 2.5 3.0 3.5 4.0");
  EXPECT_EQ(Labels(LinearTicks(0, 1, 10)), "0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1.0");
  EXPECT_EQ(Labels(LinearTicks(-0.3, 0.1, 4)),
            "\xE2\x88\x92"
            "0.3 \xE2\x88\x92"
            "0.2 \xE2\x88\x92"
            "0.1 0 0.1");
}

TEST(LinearTicks, LabelsSuitTheSize) {
  EXPECT_EQ(Labels(LinearTicks(0, 1e6, 5)), "0 0.2M 0.4M 0.6M 0.8M 1.0M");
  EXPECT_EQ(Labels(LinearTicks(0, 2.5e6, 5)), "0 0.5M 1.0M 1.5M 2.0M 2.5M");
  EXPECT_EQ(Labels(LinearTicks(0, 9e5, 5)), "0 200k 400k 600k 800k");
  EXPECT_EQ(Labels(LinearTicks(0, 80000, 4)), "0 20000 40000 60000 80000");
  EXPECT_EQ(Labels(LinearTicks(0, 6e-4, 3)), "0 2e-4 4e-4 6e-4");
  EXPECT_EQ(Labels(LinearTicks(9.0e-5, 1.1e-4, 2)), "9e-5 1e-4 1.1e-4");
  EXPECT_EQ(Labels(LinearTicks(0, 3e20, 3)), "0 1e20 2e20 3e20");
  EXPECT_EQ(Labels(LinearTicks(1000000, 1000002, 2)), "1.000000M 1.000001M 1.000002M");
}

TEST(LinearTicks, LieInsideEvenlyAndNotTooMany) {
  const CounterRng rng(1, 0);
  for (uint64_t i = 0; i < 3000; ++i) {
    const double magnitude = std::pow(10.0, static_cast<double>(rng.Below(3 * i, 560)) - 280);
    const double low = rng.Normal(3 * i + 1) * magnitude;
    const double width = (0.001 + rng.Uniform(3 * i + 2)) * magnitude;
    const int count = 2 + static_cast<int>(i % 9);
    const std::vector<Tick> ticks = LinearTicks(low, low + width, count);
    ASSERT_LE(ticks.size(), static_cast<size_t>(count) + 1) << low << " " << width;
    ASSERT_GE(ticks.size(), static_cast<size_t>(count) * 2 / 5) << low << " " << width;
    for (size_t t = 0; t < ticks.size(); ++t) {
      ASSERT_GE(ticks[t].value, low - 1e-6 * width);
      ASSERT_LE(ticks[t].value, low + 1.000001 * width);
      if (t == 0) continue;
      ASSERT_NE(ticks[t].label, ticks[t - 1].label) << low << " " << width;
    }
  }
}

TEST(LogTicks, AreDecades) {
  EXPECT_EQ(Labels(LogTicks(1, 2000, 8)), "1 10 100 1000");
  EXPECT_EQ(Labels(LogTicks(0.0005, 20, 8)), "0.001 0.01 0.1 1 10");
  EXPECT_EQ(Labels(LogTicks(1e-6, 1e-4, 8)), "1e-6 1e-5 1e-4");
  EXPECT_EQ(Labels(LogTicks(1e3, 1e6, 8)), "1000 10000 100k 1M");
}

TEST(LogTicks, WideRangesSkipDecades) {
  const std::vector<Tick> ticks = LogTicks(1e-300, 1e300, 6);
  EXPECT_LE(ticks.size(), 7u);
  EXPECT_GE(ticks.size(), 5u);
}

TEST(LogTicks, NarrowRangesGetMore) {
  EXPECT_EQ(Labels(LogTicks(3, 60, 8)), "5 10 20 50");
  EXPECT_EQ(Labels(LogTicks(0.15, 0.6, 8)), "0.2 0.5");
  EXPECT_EQ(Labels(LogTicks(1.6, 4.3, 6)), "2.0 2.5 3.0 3.5 4.0");
}

}  // namespace

}  // namespace folio
