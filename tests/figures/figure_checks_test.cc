#include "tests/figures/figure_checks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace folio {
namespace {

// A figure of 200 x 100 with `body` on it.
std::string Figure(const std::string& body, const std::string& size = "width='200' height='100'") {
  return "<svg xmlns='http://www.w3.org/2000/svg' " + size +
         " viewBox='0 0 200 100'><style>.page{fill:#fff}.ink{fill:#111}\n"
         "@media (prefers-color-scheme:dark){.page{fill:#111}.ink{fill:#eee}}\n"
         "</style><rect class='page' width='200' height='100'/>" +
         body + "</svg>";
}

constexpr const char* kSound =
    "<rect class='ink' x='10' y='60' width='50' height='20'/>"
    "<text class='ink' x='10' y='20'>Some label</text>"
    "<text class='ink' x='10' y='40'>another &amp; more</text>";

class FigureChecks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = WhyNoRenderer(); !why.empty()) GTEST_SKIP() << why;
  }
};

void ExpectFault(const std::string& svg, const std::string& fault) {
  const std::string faults = CheckFigure(svg, {});
  EXPECT_NE(faults.find(fault), std::string::npos) << fault << " expected, found: " << faults;
}

TEST_F(FigureChecks, ASoundFigurePasses) {
  EXPECT_EQ(CheckFigure(Figure(kSound), {"Some label", "another & more"}), "");
  // Text on an area, and glyphs of one text close together, are no overlap.
  EXPECT_EQ(CheckFigure(Figure("<rect class='ink' width='90' height='90' fill-opacity='.3'/>"
                               "<text class='ink' x='10' y='30' letter-spacing='-2'>WWWW</text>"),
                        {}),
            "");
}

TEST_F(FigureChecks, FindsTextsOnEachOther) {
  const std::string other = "<text class='ink' x='{}' y='{}'>Some other</text>";
  ExpectFault(Figure(kSound + fmt::format(fmt::runtime(other), 14, 22)), "texts overlap");
  ExpectFault(Figure(kSound + fmt::format(fmt::runtime(other), 60, 20)), "texts overlap");
  EXPECT_EQ(CheckFigure(Figure(kSound + fmt::format(fmt::runtime(other), 110, 20)), {}), "");
  // Also where a group moves or fades them.
  ExpectFault(Figure(std::string(kSound) + "<g transform='translate(0 -40)' opacity='.2'>" +
                     fmt::format(fmt::runtime(other), 12, 61) + "</g>"),
              "texts overlap");
}

TEST_F(FigureChecks, FindsWhatIsCutOff) {
  for (const char* place : {"x='185' y='50'", "x='-15' y='50'", "x='90' y='3'", "x='90' y='104'",
                            "transform='translate(190 90) rotate(90)'"}) {
    ExpectFault(Figure(std::string(kSound) + "<text class='ink' " + place + ">gypsum</text>"),
                "beyond the border");
  }
  ExpectFault(Figure("<path stroke='#111' d='M10 10H204'/>"), "beyond the border");
}

TEST_F(FigureChecks, FindsABlankFigure) {
  ExpectFault(Figure(""), "blank in light mode");
  ExpectFault(Figure("<text fill='#fff' x='10' y='20'>white on white</text>"),
              "blank in light mode");
  ExpectFault(Figure("<text fill='#111' x='10' y='20'>black on black</text>"),
              "blank in dark mode");
}

TEST_F(FigureChecks, FindsAWrongSize) {
  ExpectFault(Figure(kSound, "width='200' height='120'"), "view box");
  ExpectFault(Figure(kSound, "width='100%' height='100'"), "view box");
  ExpectFault(Figure(kSound, ""), "declares no size");
  // Units that make it larger than it says.
  ExpectFault(
      "<svg xmlns='http://www.w3.org/2000/svg' width='2in' height='1in' viewBox='0 0 2in "
      "1in'><style>@media (prefers-color-scheme:dark){}</style><rect width='40' height='40'/>"
      "</svg>",
      "drawn as");
}

TEST_F(FigureChecks, FindsMissingLabels) {
  EXPECT_EQ(CheckFigure(Figure(kSound), {"Some label", "third"}), "no text 'third'\n");
  // A label that only a tooltip has is not drawn.
  EXPECT_EQ(CheckFigure(Figure(std::string("<title>third</title>") + kSound), {"third"}),
            "no text 'third'\n");
  // Over two lines.
  EXPECT_EQ(CheckFigure(Figure(kSound), {"label another"}), "");
}

TEST_F(FigureChecks, FindsBrokenDocuments) {
  for (const char* body :
       {"<g>", "<a><b></a></b>", "</svg><b/><svg>", "<a x=1/>", "<a x='1' x='2'/>",
        "<a x='1'y='2'/>", "<a x='<'/>", "<text x='1'>a & b</text>", "<a>&nbsp;</a>", "<a>&#0;</a>",
        "<a>&#xFFFF;</a>", "<a>]]></a>", "<a x='1/>", "<1/>", "<a><!-- -- --></a>", "<a>\x01</a>",
        "<a>\xff</a>", "<a>\xC0\xAF</a>", "<a>\xED\xA0\x80</a>"}) {
    EXPECT_NE(CheckFigure(Figure(std::string(kSound) + body), {}), "") << body;
  }
  for (const std::string& svg :
       {std::string(), std::string("text"), "<!DOCTYPE svg>" + Figure(kSound),
        Figure(kSound) + "text", Figure(kSound) + "<b/>"}) {
    EXPECT_NE(CheckFigure(svg, {}), "") << svg;
  }
  ExpectFault(Figure(std::string(kSound) + "<rect id='a'/><g id='a'/>"), "id 'a' twice");
  ExpectFault(Figure(std::string(kSound) + "<rect fill='url(#b)'/>"), "no element 'b'");
  ExpectFault(Figure(std::string(kSound) + "<image href='http://a.b/c.png'/>"), "needs the file");
  ExpectFault("<html/>", "not an svg");
}

TEST_F(FigureChecks, PagesAreCheckedFigureByFigure) {
  const std::string sound = Figure(kSound);
  EXPECT_EQ(CheckPage("<p>" + sound + "</p>" + sound, {"Some label"}), "");
  EXPECT_EQ(CheckPage("<p>a</p>", {}), "the page has no figure\n");
  EXPECT_EQ(CheckPage(sound + Figure(""), {}),
            "figure 2: blank in light mode\nblank in dark mode\n");
  EXPECT_EQ(CheckPage(sound, {"third"}), "no text 'third' in any figure\n");
  EXPECT_EQ(CheckPage("<p id=\"a\"></p><h1 id=\"a\">" + sound, {}), "id 'a' twice in the page\n");
}

TEST(InDarkMode, TakesTheRulesOutOfTheirQuery) {
  EXPECT_EQ(InDarkMode("a{b}@media (prefers-color-scheme:dark){\nc{d}e{f}}g{h}"),
            "a{b}\nc{d}e{f}g{h}");
  EXPECT_THROW(InDarkMode("a{b}"), std::runtime_error);
  EXPECT_THROW(InDarkMode("@media (prefers-color-scheme:dark){a{b}"), std::runtime_error);
}

}  // namespace
}  // namespace folio
