#include "folio/io/crc32c.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace folio {
namespace {

// RFC 3720, appendix B.4.
TEST(Crc32c, VectorsOfTheRfc) {
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  std::string bytes;
  for (char c = 0; c < 32; ++c) bytes += c;
  EXPECT_EQ(Crc32c(bytes), 0x46DD794Eu);
  std::ranges::reverse(bytes);
  EXPECT_EQ(Crc32c(bytes), 0x113FDB5Cu);
  std::string read_command(48, '\0');  // an iSCSI Read (10) command
  read_command[0] = 0x01;
  read_command[1] = '\xC0';
  read_command[16] = 0x14;
  read_command[22] = 0x04;
  read_command[27] = 0x14;
  read_command[31] = 0x18;
  read_command[32] = 0x28;
  read_command[40] = 0x02;
  EXPECT_EQ(Crc32c(read_command), 0xD9963A56u);
}

TEST(Crc32c, CheckValueAndNothing) {
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(""), 0u);
}

// At every length and alignment of what is taken eight bytes at a time.
TEST(Crc32c, IsTheSameWithoutTheProcessorsInstruction) {
  std::string bytes;
  for (int i = 0; i < 300; ++i) bytes += static_cast<char>(i * 37 + i / 7);
  for (size_t from = 0; from < 9; ++from) {
    for (size_t size = 0; from + size <= bytes.size(); ++size) {
      const std::string_view some = std::string_view(bytes).substr(from, size);
      ASSERT_EQ(Crc32c(some, false), Crc32c(some, true)) << from << " " << size;
    }
  }
  EXPECT_EQ(Crc32c("123456789", false), 0xE3069283u);
}

}  // namespace
}  // namespace folio
