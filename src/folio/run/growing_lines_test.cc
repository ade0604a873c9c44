#include "folio/run/growing_lines.h"

#include <gtest/gtest.h>

#include <fstream>

#include "folio/io/file.h"
#include "tests/kit/directory.h"

namespace folio {
namespace {

class GrowingLinesTest : public InTemporaryDirectory {
 protected:
  void Append(const std::string& text) { std::ofstream(file_, std::ios::app) << text; }
  std::vector<std::string> Read(uint64_t most = 1 << 20) {
    std::vector<std::string> lines;
    while (reader_.Read(most, [&](std::string_view line) { lines.emplace_back(line); })) {
    }
    return lines;
  }
  using Lines = std::vector<std::string>;

  std::filesystem::path file_ = At("log");
  GrowingLines reader_{file_};
};

TEST_F(GrowingLinesTest, GivesEachWholeLineOnce) {
  EXPECT_EQ(Read(), Lines{});
  Append("a\nb\nto");
  EXPECT_EQ(Read(), (Lines{"a", "b"}));
  EXPECT_EQ(Read(), Lines{});
  Append("rn\n\n");
  EXPECT_EQ(Read(), (Lines{"torn", ""}));
  EXPECT_FALSE(reader_.Rewound());
}

TEST_F(GrowingLinesTest, BeginsAgainWhereTheFileWasCutOrReplaced) {
  Append("a\nb\nc\n");
  Read();
  std::filesystem::resize_file(file_, 2);
  EXPECT_TRUE(reader_.Rewound());
  EXPECT_EQ(Read(), Lines{"a"});
  WriteFileAtomically(file_, "x\ny\nz\n");
  EXPECT_TRUE(reader_.Rewound());
  EXPECT_EQ(Read(), (Lines{"x", "y", "z"}));
  std::filesystem::resize_file(file_, 3);
  Append("longer\n");
  EXPECT_TRUE(reader_.Rewound()) << "no line ends where the reader was";
  std::filesystem::remove(file_);
  Read();
  EXPECT_EQ(reader_.left(), 0u);
}

TEST_F(GrowingLinesTest, ALineWithoutEndIsNoOnesMemory) {
  Append("a\n" + std::string(1000, 'x') + "y\nb\n");
  const Lines lines = Read(64);
  ASSERT_GE(lines.size(), 3u);
  EXPECT_EQ(lines.front(), "a");
  EXPECT_EQ(lines.back(), "b");
  for (const std::string& line : lines) EXPECT_LE(line.size(), 64u);
  EXPECT_FALSE(reader_.Rewound());
}

TEST_F(GrowingLinesTest, LeavesOutWhatIsThere) {
  Append("a\nb\nto");
  reader_.SkipToEnd();
  EXPECT_EQ(reader_.left(), 2u);
  Append("rn\nc\n");
  EXPECT_EQ(Read(), (Lines{"torn", "c"}));
}

}  // namespace
}  // namespace folio
