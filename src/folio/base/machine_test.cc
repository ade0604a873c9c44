#include "folio/base/machine.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/kit/directory.h"

namespace folio {
namespace {

// A tree of files like Linux's.
class Machine : public InTemporaryDirectory {
 protected:
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(At(path).parent_path());
    std::ofstream(At(path)) << text << "\n";
  }
  void WriteSiblings(int processor, const std::string& siblings) {
    Write("cpu/cpu" + std::to_string(processor) + "/topology/thread_siblings_list", siblings);
  }
  int Cores(const std::vector<int>& processors) const { return UsableCores(processors, files_); }
  uint64_t Bytes() const { return ThisMachinesMemory(files_).total; }
  uint64_t Left() const { return ThisMachinesMemory(files_).available; }

 private:
  const MachineFiles files_ = {At("cpu"), At("own"), At("cg")};
};

TEST_F(Machine, HyperthreadsAreOneCore) {
  for (int i = 0; i < 8; ++i) {
    WriteSiblings(i, std::to_string(i % 4) + "," + std::to_string(i % 4 + 4));
  }
  EXPECT_EQ(Cores({0, 1, 2, 3, 4, 5, 6, 7}), 4);
  EXPECT_EQ(Cores({1, 5}), 1);
  EXPECT_EQ(Cores({2, 5, 6}), 2);
}

TEST_F(Machine, WithoutFilesEachIsACore) {
  EXPECT_EQ(Cores({3}), 1);
  EXPECT_EQ(Cores({0, 1, 7}), 3);
  WriteSiblings(0, "0-1");
  WriteSiblings(1, "0-1");
  EXPECT_EQ(Cores({0, 1, 7}), 2);
  EXPECT_EQ(Cores({}), 1);
}

TEST_F(Machine, LimitsOfACgroupHoldForCores) {
  const std::vector<int> six = {0, 1, 2, 3, 4, 5};
  Write("own", "0::/");
  EXPECT_EQ(Cores(six), 6);
  for (const auto& [text, cores] : std::vector<std::pair<std::string, int>>{{"max 100000", 6},
                                                                            {"300000 100000", 3},
                                                                            {"250000 100000", 3},
                                                                            {"1000 100000", 1},
                                                                            {"900000 100000", 6},
                                                                            {"", 6},
                                                                            {"damaged", 6}}) {
    Write("cg/cpu.max", text);
    EXPECT_EQ(Cores(six), cores) << text;
  }
}

TEST_F(Machine, TheTightestCgroupAboveCounts) {
  const std::vector<int> six = {0, 1, 2, 3, 4, 5};
  Write("own", "4:memory:/x\n0::/a/b");
  Write("cg/a/b/cpu.max", "500000 100000");
  EXPECT_EQ(Cores(six), 5);
  Write("cg/a/cpu.max", "200000 100000");
  EXPECT_EQ(Cores(six), 2);
  Write("cg/unified/cpu.max", "100000 100000");
  EXPECT_EQ(Cores(six), 1);
}

TEST_F(Machine, LimitsOfVersion1Hold) {
  const std::vector<int> six = {0, 1, 2, 3, 4, 5};
  Write("own", "5:cpuset:/job\n4:cpu,cpuacct:/job\n0::/");
  Write("cg/cpu,cpuacct/job/cpu.cfs_period_us", "50000");
  Write("cg/cpu,cpuacct/job/cpu.cfs_quota_us", "-1");
  Write("cg/cpuset/job/cpu.cfs_period_us", "50000");
  Write("cg/cpuset/job/cpu.cfs_quota_us", "50000");
  EXPECT_EQ(Cores(six), 6);
  Write("cg/cpu,cpuacct/job/cpu.cfs_quota_us", "200000");
  EXPECT_EQ(Cores(six), 4);
  // Both controllers are mounted together with their names in the other order, and by one name
  // each.
  Write("own", "4:cpuacct,cpu:/job");
  EXPECT_EQ(Cores(six), 6);
  Write("cg/cpu/job/cpu.cfs_period_us", "50000");
  Write("cg/cpu/job/cpu.cfs_quota_us", "150000");
  EXPECT_EQ(Cores(six), 3);
}

TEST_F(Machine, ProcessorsAreThoseItMayRunOn) {
  std::thread([] {  // limits the setting to this thread
    cpu_set_t set;
    ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
    EXPECT_EQ(ProcessorsOfThisProcess().size(), static_cast<size_t>(CPU_COUNT(&set)));
    const int last = ProcessorsOfThisProcess().back();
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(last), &set);
    ASSERT_EQ(sched_setaffinity(0, sizeof(set), &set), 0);
    EXPECT_EQ(ProcessorsOfThisProcess(), std::vector<int>{last});
    EXPECT_EQ(UsableCores(ProcessorsOfThisProcess()), 1);
  })
      .join();
}

// Linux's sched_attr: 48 bytes; those from the 24th on are the length of a time slice.
uint64_t TurnOfThisThread() {
  std::array<uint64_t, 6> attributes = {};
  EXPECT_EQ(syscall(SYS_sched_getattr, 0, attributes.data(), sizeof(attributes), 0), 0);
  return attributes[3];
}

TEST(ShortTurns, AreTakenByAThreadAndThoseItBegins) {
  if (TurnOfThisThread() == 0)
    GTEST_SKIP() << "this Linux has no turns of a length that threads choose";
  std::thread([] {
    TakeShortTurns();
    static constexpr uint64_t kNanoseconds = 100'000;
    EXPECT_EQ(TurnOfThisThread(), kNanoseconds);
    std::thread([] { EXPECT_EQ(TurnOfThisThread(), kNanoseconds); }).join();
  }).join();
  EXPECT_NE(TurnOfThisThread(), 100'000U);
}

TEST_F(Machine, MemoryIsItsOwnWithoutCgroups) {
  const uint64_t all = Bytes();
  EXPECT_GT(all, uint64_t{64} << 20);
  Write("own", "0::/");
  Write("cg/memory.max", "max");
  EXPECT_EQ(Bytes(), all);
  Write("cg/memory.max", "9223372036854771712");
  EXPECT_EQ(Bytes(), all);
}

TEST_F(Machine, MemoryIsTheLeastThatAGroupAllows) {
  Write("own", "0::/a/b");
  Write("cg/a/memory.max", "30000000");
  EXPECT_EQ(Bytes(), 30000000u);
  Write("cg/a/b/memory.max", "max");
  EXPECT_EQ(Bytes(), 30000000u);
  Write("cg/a/b/memory.max", "20000000");
  EXPECT_EQ(Bytes(), 20000000u);
}

TEST_F(Machine, MemoryLeftIsWhatTheGroupDoesNotUse) {
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

TEST_F(Machine, MemoryHasLimitsOfVersion1Too) {
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
