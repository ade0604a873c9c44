#include "folio/base/visible_text.h"

#include <gtest/gtest.h>

namespace folio {
namespace {

TEST(VisibleToken, ShowsWhatOneCannotSee) {
  EXPECT_EQ(VisibleToken("cat"), "cat");
  EXPECT_EQ(VisibleToken(" cat"),
            "\xC2\xB7"
            "cat");
  EXPECT_EQ(VisibleToken("a b  "), "a b\xC2\xB7\xC2\xB7");
  EXPECT_EQ(VisibleToken("   "), "\xC2\xB7\xC2\xB7\xC2\xB7");
  EXPECT_EQ(VisibleToken("\n"), "\xE2\x86\xB5");
  EXPECT_EQ(VisibleToken("\r\t"), "<0D><09>");
  EXPECT_EQ(VisibleToken(std::string_view("\0\x1b\x7f", 3)), "<00><1B><7F>");
  EXPECT_EQ(VisibleToken("\xC2\x85"), "<C2><85>");  // a control character of two bytes
  EXPECT_EQ(VisibleToken("\xE4\xBD\xA0"), "\xE4\xBD\xA0");
  EXPECT_EQ(VisibleToken("\xE4\xBD"), "<E4><BD>");
  EXPECT_EQ(VisibleToken(""), "");
}

}  // namespace
}  // namespace folio
