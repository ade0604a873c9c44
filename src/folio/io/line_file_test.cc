#include "folio/io/line_file.h"

#include <gtest/gtest.h>

#include <string>

#include "folio/io/file.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/full_disk.h"
#include "tests/kit/warnings.h"

namespace folio {
namespace {

using LineFiles = InTemporaryDirectory;

TEST_F(LineFiles, AreAppendedTo) {
  WriteFileAtomically(At("lines"), "one\n");
  LineFile file(At("lines"));
  file.Write("two\n");
  EXPECT_EQ(ReadFile(At("lines")), "one\ntwo\n");
  file.Finish();
  EXPECT_TRUE(Contains(ErrorOf([&] { LineFile(At("none/lines")); }, ErrorKind::kRuntime), "none"));
}

TEST_F(LineFiles, WaitForRoomAndLoseNothing) {
  const Warnings warnings;
  LineFile file(At("lines"));
  file.Write("first\n");
  {
    const FullDisk full(10);
    file.Write("second\n");
    EXPECT_EQ(ReadFile(At("lines")), "first\nseco");
    file.Write("third\n");
    EXPECT_EQ(Count(warnings.text(), "cannot write"), 1u) << warnings.text();
    EXPECT_TRUE(Contains(ErrorOf([&] { file.Finish(); }, ErrorKind::kRuntime), "lines"));
  }
  file.Write("fourth\n");
  EXPECT_EQ(ReadFile(At("lines")), "first\nsecond\nthird\nfourth\n");
  file.Finish();
}

}  // namespace
}  // namespace folio
