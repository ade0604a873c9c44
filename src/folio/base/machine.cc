#include "folio/base/machine.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "folio/base/error.h"
#include "folio/base/strings.h"

namespace folio {
namespace {

// A figure "name: N kB" of a /proc file in bytes, 0 if it is not told.
uint64_t ProcBytes(const char* path, const std::string& name) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    uint64_t kilobytes = 0;
    if (word == name && file >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

// Bytes that one cgroup may hold; no limit where it is not a number ("max", nothing).
double MemoryLimitOf(const std::filesystem::path& group) {
  double least = kNoLimit;
  for (const char* name : {"memory.max", "memory.limit_in_bytes"}) {
    std::istringstream in(FirstLine(group / name));
    if (double bytes = 0; in >> bytes && bytes > 0) least = std::min(least, bytes);
  }
  return least;
}

// The memory that one cgroup has left counts pages of files that nobody uses now: it gets them back
// when it needs them.
double FreeMemoryOf(const std::filesystem::path& group) {
  const double limit = MemoryLimitOf(group);
  double used = 0;
  for (const char* name : {"memory.current", "memory.usage_in_bytes"}) {
    std::istringstream in(FirstLine(group / name));
    if (double bytes = 0; in >> bytes) used = std::max(used, bytes);
  }
  std::ifstream stat(group / "memory.stat");
  double files = 0;
  for (std::string name; stat >> name;) {
    if (double bytes = 0; stat >> bytes && name == "inactive_file") files = bytes;
  }
  return std::max(0.0, limit - std::max(0.0, used - files));
}

}  // namespace

uint64_t PhysicalMemoryBytes(const CgroupFiles& files) {
  const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || size <= 0) return 0;
  const auto all = static_cast<uint64_t>(pages) * static_cast<uint64_t>(size);
  const double limit = LeastOfCgroups(files, "memory", MemoryLimitOf);
  return limit < static_cast<double>(all) ? static_cast<uint64_t>(limit) : all;
}

void AdviseLargePages([[maybe_unused]] void* memory, [[maybe_unused]] size_t bytes) {
#ifdef MADV_HUGEPAGE
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t first = (begin + kLargePageBytes - 1) & ~(kLargePageBytes - 1);
  const uintptr_t last = (begin + bytes) & ~(kLargePageBytes - 1);
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

std::byte* MapZeros(size_t bytes) {
  const size_t whole = bytes + kLargePageBytes;
  void* memory = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  // The memory before the first multiple and behind the end is given back.
  auto* const begin = static_cast<std::byte*>(memory);
  const size_t skip =
      (kLargePageBytes - reinterpret_cast<uintptr_t>(begin) % kLargePageBytes) % kLargePageBytes;
  if (skip > 0) munmap(begin, skip);
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t used = (skip + bytes + page - 1) / page * page;
  if (used < whole) munmap(begin + used, whole - used);
  AdviseLargePages(begin + skip, bytes);
  return begin + skip;
}

void UnmapZeros(std::byte* memory, size_t bytes) {
  munmap(memory, bytes);
}

MachineMemory ThisMachinesMemory(const CgroupFiles& files) {
  const uint64_t total = PhysicalMemoryBytes(files);
  const uint64_t available = ProcBytes("/proc/meminfo", "MemAvailable:");
  const double left = LeastOfCgroups(files, "memory", FreeMemoryOf);
  return {total, left < static_cast<double>(available) ? static_cast<uint64_t>(left) : available};
}

void RequireMemory(const std::string& what, uint64_t bytes, const std::string& help) {
  const uint64_t memory = PhysicalMemoryBytes();
  if (memory == 0 || bytes <= memory) return;
  throw Error(ErrorKind::kResource, fmt::format("{} does not fit into memory", what),
              fmt::format("it needs {}, the machine has {}", HumanBytes(static_cast<double>(bytes)),
                          HumanBytes(static_cast<double>(memory))),
              help);
}

uint64_t PeakMemoryBytes() {
  return ProcBytes("/proc/self/status", "VmHWM:");
}

bool ResetPeakMemory() {
  std::ofstream file("/proc/self/clear_refs");
  return static_cast<bool>(file << "5" << std::flush);
}

}  // namespace folio
