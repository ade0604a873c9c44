#include "folio/base/base64.h"

#include <gtest/gtest.h>

#include <optional>

namespace folio {
namespace {

TEST(Base64, EqualsTheExamplesOfRfc4648) {
  EXPECT_EQ(Base64(""), "");
  EXPECT_EQ(Base64("f"), "Zg==");
  EXPECT_EQ(Base64("fo"), "Zm8=");
  EXPECT_EQ(Base64("foo"), "Zm9v");
  EXPECT_EQ(Base64("foob"), "Zm9vYg==");
  EXPECT_EQ(Base64("fooba"), "Zm9vYmE=");
  EXPECT_EQ(Base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(Base64(std::string_view("\xff\xfe\x00", 3)), "//4A");
}

std::optional<std::string> Decoded(std::string_view text) {
  std::string bytes;
  return AppendBase64(text, bytes) ? std::optional(bytes) : std::nullopt;
}

TEST(Base64, IsReadBack) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) {
    bytes += static_cast<char>(i * 7 + 3);
    EXPECT_EQ(Decoded(Base64(bytes)), bytes);
  }
  std::string text = "f";
  EXPECT_TRUE(AppendBase64("b28=", text));
  EXPECT_EQ(text, "foo");
}

TEST(Base64, OtherTextsAreNotRead) {
  for (const char* text : {"", "Zg", "Zg=", "Zg===", "Z===", "====", "Zh==", "Zm9=", "Zm9v=",
                           "Zm-v", "Zm_v", "Zm9v\n", "=m9v", "Z=9v", "Zm 9"}) {
    EXPECT_EQ(Decoded(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace folio
