#include "folio/base/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

namespace folio {

namespace {

// Bytes that one cgroup may hold; no limit where it is not a number ("max", nothing).
double MemoryLimitOf(const std::filesystem::path& group) {
  double least = kNoLimit;
  for (const char* name : {"memory.max", "memory.limit_in_bytes"}) {
    std::istringstream in(FirstLine(group / name));
    if (double bytes = 0; in >> bytes && bytes > 0) least = std::min(least, bytes);
  }
  return least;
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

}  // namespace folio
