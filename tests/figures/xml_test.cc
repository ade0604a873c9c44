#include "tests/figures/xml.h"

#include <gtest/gtest.h>

namespace folio {
namespace {

TEST(ParseXml, ReadsElementsAttributesAndText) {
  const XmlNode root = ParseXml(
      "<?xml version=\"1.0\"?>\n<!-- a --><a x='1' y=\"&lt;&#x41;\"><b/>t&amp;<c >u</c></a>\n");
  EXPECT_EQ(root.name, "a");
  EXPECT_EQ(root.Get("x"), "1");
  EXPECT_EQ(root.Get("y"), "<A");
  EXPECT_EQ(root.Get("z"), "");
  ASSERT_EQ(root.children.size(), 3u);
  EXPECT_EQ(root.children[0].name, "b");
  EXPECT_EQ(root.AllText(), "t&u");
  EXPECT_EQ(ParseXml(WriteXml(root)).AllText(), "t&u");
  EXPECT_EQ(ParseXml(WriteXml(root)).attributes, root.attributes);
}

TEST(ParseXml, RefusesWhatIsNotWellFormed) {
  for (const char* document : {"",
                               "text",
                               "<a>",
                               "<a></b>",
                               "<a><b></a></b>",
                               "<a/><b/>",
                               "<a/>text",
                               "<a x=1/>",
                               "<a x='1' x='2'/>",
                               "<a x='1'y='2'/>",
                               "<a x='<'/>",
                               "<a>&nbsp;</a>",
                               "<a>& b</a>",
                               "<a>&#0;</a>",
                               "<a>&#xFFFF;</a>",
                               "<a>]]></a>",
                               "<a x='1/>",
                               "<1/>",
                               "<a><!-- -- --></a>",
                               "<!DOCTYPE a><a/>",
                               "<a>\x01</a>",
                               "<a>\xff</a>",
                               "<a>\xC0\xAF</a>",
                               "<a>\xED\xA0\x80</a>",
                               "<a"}) {
    EXPECT_THROW(ParseXml(document), XmlError) << document;
  }
}

}  // namespace
}  // namespace folio
