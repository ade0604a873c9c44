#include "folio/plot/html.h"

#include <gtest/gtest.h>

#include "folio/plot/heatmap.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

TEST(HtmlPage, HoldsItsSectionsInOrder) {
  HtmlPage page("A & B");
  page.Heading(1, "First <part>");
  page.Paragraph("1 < 2");
  page.Code("  x\n<y>");
  page.Html("<table><tr><td>3</td></tr></table>");
  const std::string html = std::move(page).Finish();
  EXPECT_TRUE(html.starts_with("<!DOCTYPE html>\n<html lang=\"en\">"));
  EXPECT_EQ(Count(html, "<title>A &amp; B</title>"), 1U);
  EXPECT_EQ(Count(html,
                  "<h1 id=\"first-part\">First &lt;part&gt;</h1>\n<p>1 &lt; 2</p>\n"
                  "<pre>\n  x\n&lt;y&gt;</pre>\n<table><tr><td>3</td></tr></table>\n"),
            1U);
  EXPECT_EQ(Count(html, "prefers-color-scheme:dark"), 1U);
}

TEST(HtmlPage, NeedsNothingFromAnywhere) {
  HtmlPage page("t");
  page.Figure(HeatmapSvg({.rows = 1, .columns = 1, .values = {1}}, {}));
  const std::string html = std::move(page).Finish();
  for (const char* outside : {"<script", "<link", "@import", "src=", "url(http", "url(//"}) {
    EXPECT_EQ(Count(html, outside), 0U) << outside;
  }
  EXPECT_EQ(Count(html, "http"), Count(html, "http://www.w3.org/2000/svg"));
}

TEST(HtmlPage, AnchorsAreUnique) {
  HtmlPage page("t");
  for (const char* heading : {"The step", "The step!", "the-step 2", "\xE4\xBD\xA0", "?"}) {
    page.Heading(2, heading);
  }
  const std::string html = std::move(page).Finish();
  for (const char* id : {"the-step", "the-step-2", "the-step-2-2", "section", "section-2"}) {
    EXPECT_EQ(Count(html, "<h2 id=\"" + std::string(id) + "\">"), 1U) << id;
  }
  HtmlPage other("t");
  EXPECT_DEATH(other.Heading(5, "x"), "no such level");
}

TEST(HtmlPage, FiguresKeepTheirIdsApart) {
  const std::string svg =
      "<?xml version=\"1.0\"?>\n<svg><mask id=\"m\"/><rect mask=\"url(#m)\"/><use href=\"#m\"/>"
      "<text id=\"t\">see url(#m) and id=&quot;m&quot;</text></svg>\n";
  HtmlPage page("t");
  page.Figure(svg, "the <first>");
  page.Figure(svg);
  const std::string html = std::move(page).Finish();
  EXPECT_EQ(Count(html, "<?xml"), 0U);
  for (const char* figure : {"figure1.", "figure2."}) {
    EXPECT_EQ(Count(html, "<svg><mask id=\"" + std::string(figure) + "m\"/><rect mask=\"url(#" +
                              figure + "m)\"/><use href=\"#" + figure + "m\"/><text id=\"" +
                              figure + "t\">see url(#m) and id=&quot;m&quot;</text></svg>"),
              1U);
  }
  EXPECT_EQ(Count(html, "<figcaption>the &lt;first&gt;</figcaption>"), 1U);
  EXPECT_EQ(Count(html, "<figcaption>"), 1U);
}

}  // namespace
}  // namespace folio
