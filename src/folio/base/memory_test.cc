#include <gtest/gtest.h>

#include <string>

#include "folio/base/machine.h"
#include "tests/kit/directory.h"

namespace folio {
namespace {

class Memory : public InTemporaryDirectory {
 protected:
  void Write(const std::string& path, const std::string& text) { PutFile(path, text + "\n"); }
  uint64_t Bytes() const { return PhysicalMemoryBytes({At("own"), At("cg")}); }
  uint64_t Left() const { return ThisMachinesMemory({At("own"), At("cg")}).available; }
};

TEST_F(Memory, IsTheMachinesWithoutCgroups) {
  const uint64_t all = Bytes();
  EXPECT_GT(all, uint64_t{64} << 20);
  Write("own", "0::/");
  Write("cg/memory.max", "max");
  EXPECT_EQ(Bytes(), all);
  Write("cg/memory.max", "9223372036854771712");
  EXPECT_EQ(Bytes(), all);
}

TEST_F(Memory, IsTheLeastThatAGroupAllows) {
  Write("own", "0::/a/b");
  Write("cg/a/memory.max", "30000000");
  EXPECT_EQ(Bytes(), 30000000u);
  Write("cg/a/b/memory.max", "max");
  EXPECT_EQ(Bytes(), 30000000u);
  Write("cg/a/b/memory.max", "20000000");
  EXPECT_EQ(Bytes(), 20000000u);
}

TEST_F(Memory, LeftIsWhatTheGroupDoesNotUse) {
  Write("own", "0::/a");
  Write("cg/a/memory.max", "50000000");
  EXPECT_EQ(Left(), 50000000u);
  Write("cg/a/memory.current", "30000000");
  EXPECT_EQ(Left(), 20000000u);
  Write("cg/a/memory.stat", "anon 20000000\ninactive_file 8000000\nactive_file 2000000");
  EXPECT_EQ(Left(), 28000000u);
  Write("cg/a/memory.current", "90000000");
  EXPECT_EQ(Left(), 0u);
}

TEST_F(Memory, OfVersionOneToo) {
  Write("own", "5:cpuset:/c\n3:memory:/a\n2:cpu,cpuacct:/b");
  Write("cg/memory/a/memory.limit_in_bytes", "40000000");
  Write("cg/cpu/b/memory.limit_in_bytes", "10000000");
  EXPECT_EQ(Bytes(), 40000000u);
}

TEST(MapZeros, AreAlignedAndMayBeWritten) {
  for (const size_t bytes : {size_t{1}, size_t{4097}, 3 * kLargePageBytes + 5}) {
    std::byte* const zeros = MapZeros(bytes);
    ASSERT_NE(zeros, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(zeros) % kLargePageBytes, 0u);
    EXPECT_EQ(zeros[0], std::byte{0});
    EXPECT_EQ(zeros[bytes - 1], std::byte{0});
    zeros[0] = zeros[bytes - 1] = std::byte{7};
    UnmapZeros(zeros, bytes);
  }
  EXPECT_EQ(MapZeros(size_t{1} << 60), nullptr);
}

}  // namespace
}  // namespace folio
