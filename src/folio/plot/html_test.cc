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

TEST(HtmlPage, ListsItsSectionsBeforeTheFirst) {
  const auto page_of = [](int sections) {
    HtmlPage page("t");
    page.Heading(1, "Title");
    page.Paragraph("what it is");
    for (int i = 1; i <= sections; ++i) page.Heading(i == 1 ? 2 : 3, i < 3 ? "A & B" : "C");
    return std::move(page).Finish();
  };
  EXPECT_EQ(Count(page_of(3),
                  "<p>what it is</p>\n<nav aria-label=\"contents\"><ul>\n"
                  "<li class=\"l2\"><a href=\"#a-b\">A &amp; B</a></li>\n"
                  "<li class=\"l3\"><a href=\"#a-b-2\">A &amp; B</a></li>\n"
                  "<li class=\"l3\"><a href=\"#c\">C</a></li>\n</ul></nav>\n<h2"),
            1U);
  EXPECT_EQ(Count(page_of(2), "<nav"), 0U);
}

TEST(HtmlPage, TablesHaveABoxOfTheirOwn) {
  HtmlPage page("t");
  const std::vector<std::string> columns = {">n", "a<b"};
  page.Table(columns, std::vector<std::vector<std::string>>{{"1", "&"}});
  EXPECT_EQ(Count(std::move(page).Finish(),
                  "<div class=\"table\"><table><thead><tr><th scope=\"col\" class=\"number\">n</th>"
                  "<th scope=\"col\">a&lt;b</th></tr></thead>\n<tbody>\n"
                  "<tr><th scope=\"row\" class=\"number\">1</th><td>&amp;</td></tr>\n"
                  "</tbody></table></div>\n"),
            1U);
  HtmlPage other("t");
  EXPECT_DEATH(other.Table(columns, std::vector<std::vector<std::string>>{{"1"}}), "a cell for");
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
