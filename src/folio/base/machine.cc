#include "folio/base/machine.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <set>
#include <thread>

#include "folio/base/error.h"
#include "folio/base/strings.h"

#ifdef __EMSCRIPTEN__
#include <cstdlib>
#include <cstring>
#endif
#ifdef __linux__
#include <sched.h>
#include <sys/syscall.h>
#endif

namespace folio {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// The first line of a file, empty if there is none.
std::string FirstLine(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The least that `limit` gives for the directories of this process's cgroups and of all above them:
// those of version 2, and those of version 1 that have this controller ("cpu", "memory"). kNoLimit
// where there are none.
//
// Lines of `own_cgroups` are "hierarchy:controllers:path"; without controllers it is version 2.
// Several controllers may be mounted together, in a directory that lists them in whatever order,
// with a link of each one's name to it.
double LeastOfCgroups(const MachineFiles& files, const std::string& controller,
                      double (*limit)(const std::filesystem::path& group)) {
  std::ifstream lines(files.own_cgroups);
  double least = kNoLimit;
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const auto within = [&](const std::string& mounted_as) {
      const std::filesystem::path mount = std::filesystem::path(files.cgroups) / mounted_as;
      least = std::min(least, limit(mount));
      std::filesystem::path group = line.substr(second + 1);
      for (; group.has_relative_path(); group = group.parent_path()) {
        least = std::min(least, limit(mount / group.relative_path()));
      }
    };
    if (controllers.empty()) {
      within("."), within("unified");
    } else if (("," + controllers + ",").find("," + controller + ",") != std::string::npos) {
      within(controllers), within(controller);
    }
  }
  return least;
}

// The number that a file begins with, 0 if there is none.
double NumberIn(const std::filesystem::path& path) {
  double number = 0;
  std::ifstream(path) >> number;
  return number;
}

// A value "name: N kB" of a /proc file in bytes, 0 if it is missing.
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
    if (const double bytes = NumberIn(group / name); bytes > 0) least = std::min(least, bytes);
  }
  return least;
}

// Memory that one cgroup has left. Cached file pages that are not in use count as free, since the
// kernel reclaims them on demand.
double FreeMemoryOf(const std::filesystem::path& group) {
  const double used =
      std::max(NumberIn(group / "memory.current"), NumberIn(group / "memory.usage_in_bytes"));
  std::ifstream stat(group / "memory.stat");
  double files = 0;
  for (std::string name; stat >> name;) {
    if (double bytes = 0; stat >> bytes && name == "inactive_file") files = bytes;
  }
  return std::max(0.0, MemoryLimitOf(group) - std::max(0.0, used - files));
}

// Both in microseconds; no limit where they are not numbers ("max", -1, nothing).
double Share(const std::string& quota_and_period) {
  std::istringstream in(quota_and_period);
  double quota = 0, period = 0;
  return in >> quota >> period && quota > 0 && period > 0 ? quota / period : kNoLimit;
}

// Processors' worth of time that one cgroup is given.
double ShareOf(const std::filesystem::path& group) {
  return std::min(
      Share(FirstLine(group / "cpu.max")),
      Share(FirstLine(group / "cpu.cfs_quota_us") + " " + FirstLine(group / "cpu.cfs_period_us")));
}

#ifdef __linux__
// sched_attr of Linux, whose header cannot stand beside the C library's.
struct SchedAttr {
  uint32_t size = sizeof(SchedAttr);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0, deadline = 0, period = 0;  // nanoseconds
};
#endif

}  // namespace

std::string HostName() {
  std::array<char, 256> name = {};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

MachineMemory ThisMachinesMemory(const MachineFiles& files) {
  const auto least = [&](uint64_t bytes, double (*limit)(const std::filesystem::path& group)) {
    const double of_cgroups = LeastOfCgroups(files, "memory", limit);
    return of_cgroups < static_cast<double>(bytes) ? static_cast<uint64_t>(of_cgroups) : bytes;
  };
  const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  const bool told = pages > 0 && size > 0;
  const uint64_t total = told ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(size) : 0;
  return {least(total, MemoryLimitOf),
          least(ProcBytes("/proc/meminfo", "MemAvailable:"), FreeMemoryOf)};
}

void AdviseLargePages([[maybe_unused]] void* memory, [[maybe_unused]] size_t bytes) {
#ifdef MADV_HUGEPAGE
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t first = (begin + kLargePageBytes - 1) & ~(kLargePageBytes - 1);
  const uintptr_t last = (begin + bytes) & ~(kLargePageBytes - 1);
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

#ifdef __EMSCRIPTEN__

// Parts of this mapping cannot be unmapped there.
std::byte* MapZeros(size_t bytes) {
  const size_t whole = (bytes + kLargePageBytes - 1) / kLargePageBytes * kLargePageBytes;
  void* const memory = std::aligned_alloc(kLargePageBytes, whole);
  if (memory != nullptr) std::memset(memory, 0, bytes);
  return static_cast<std::byte*>(memory);
}

void UnmapZeros(std::byte* memory, size_t) {
  std::free(memory);
}

#else

std::byte* MapZeros(size_t bytes) {
  const size_t whole = bytes + kLargePageBytes;
  void* memory = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  // Unmaps the memory before the first multiple and behind the end.
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

#endif

void RequireMemory(const std::string& what, uint64_t bytes, const std::string& help) {
  const uint64_t memory = ThisMachinesMemory().total;
  if (memory == 0 || bytes <= memory) return;
  throw Error(ErrorKind::kResource, fmt::format("{} does not fit in memory", what),
              fmt::format("it needs {}, the machine has {}", HumanBytes(bytes), HumanBytes(memory)),
              help);
}

uint64_t PeakMemoryBytes() {
  return ProcBytes("/proc/self/status", "VmHWM:");
}

uint64_t HeldMemoryBytes() {
  return ProcBytes("/proc/self/status", "VmRSS:");
}

bool ResetPeakMemory() {
  std::ofstream file("/proc/self/clear_refs");
  return static_cast<bool>(file << "5" << std::flush);
}

std::vector<int> ProcessorsOfThisProcess() {
  std::vector<int> processors;
#ifdef __linux__
  std::array<cpu_set_t, 8> sets = {};  // room for 8192
  if (sched_getaffinity(0, sizeof(sets), sets.data()) == 0) {
    for (int i = 0; i < static_cast<int>(sets.size()) * CPU_SETSIZE; ++i) {
      if (CPU_ISSET_S(static_cast<size_t>(i), sizeof(sets), sets.data())) processors.push_back(i);
    }
    return processors;
  }
#endif
  processors.resize(std::max(1u, std::thread::hardware_concurrency()));
  std::iota(processors.begin(), processors.end(), 0);
  return processors;
}

int ThisProcessor() {
#ifdef __linux__
  return sched_getcpu();
#else
  return -1;
#endif
}

bool IsOnProcessor(int number) {
  return number >= 0 && number == ThisProcessor();
}

int UsableCores(const std::vector<int>& processors, const MachineFiles& files) {
  std::set<std::string> cores;
  for (const int processor : processors) {
    const std::string number = std::to_string(processor);
    const std::string siblings = FirstLine(std::filesystem::path(files.processors) /
                                           ("cpu" + number) / "topology/thread_siblings_list");
    cores.insert(siblings.empty() ? "only " + number : siblings);
  }
  const double limit = std::ceil(LeastOfCgroups(files, "cpu", ShareOf));
  const double threads = std::min(static_cast<double>(cores.size()), limit);
  return std::max(1, static_cast<int>(threads));
}

void TakeShortTurns() {
#ifdef __linux__
  SchedAttr turns;
  if (syscall(SYS_sched_getattr, 0, &turns, sizeof(turns), 0) != 0) return;
  if (turns.policy != SCHED_OTHER) return;
  turns.runtime = 100'000;  // nanoseconds, the least that Linux takes
  syscall(SYS_sched_setattr, 0, &turns, 0);
#endif
}

}  // namespace folio
