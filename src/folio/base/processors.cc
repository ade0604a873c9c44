#include "folio/base/processors.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <set>
#include <sstream>
#include <thread>

namespace folio {
namespace {

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

}  // namespace

std::vector<int> ProcessorsOfThisProcess() {
  std::array<cpu_set_t, 8> sets = {};  // room for 8192
  std::vector<int> processors;
  if (sched_getaffinity(0, sizeof(sets), sets.data()) == 0) {
    for (int i = 0; i < static_cast<int>(sets.size()) * CPU_SETSIZE; ++i) {
      if (CPU_ISSET_S(static_cast<size_t>(i), sizeof(sets), sets.data())) processors.push_back(i);
    }
  } else {
    processors.resize(std::max(1u, std::thread::hardware_concurrency()));
    for (size_t i = 0; i < processors.size(); ++i) processors[i] = static_cast<int>(i);
  }
  return processors;
}

int UsableCores(const std::vector<int>& processors, const ProcessorFiles& files) {
  std::set<std::string> cores;
  for (const int processor : processors) {
    const std::string number = std::to_string(processor);
    const std::string siblings = FirstLine(std::filesystem::path(files.processors) /
                                           ("cpu" + number) / "topology/thread_siblings_list");
    cores.insert(siblings.empty() ? "only " + number : siblings);
  }
  const double limit = std::ceil(LeastOfCgroups(files.cgroups, "cpu", ShareOf));
  const double threads = std::min(static_cast<double>(cores.size()), limit);
  return std::max(1, static_cast<int>(threads));
}

namespace {

// sched_attr of Linux, whose header cannot stand beside the C library's.
struct SchedAttr {
  uint32_t size = sizeof(SchedAttr);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0, deadline = 0, period = 0;  // nanoseconds
};

}  // namespace

void TakeShortTurns() {
  SchedAttr turns;
  if (syscall(SYS_sched_getattr, 0, &turns, sizeof(turns), 0) != 0) return;
  if (turns.policy != SCHED_OTHER) return;
  turns.runtime = 100'000;  // nanoseconds, the least that Linux takes
  syscall(SYS_sched_setattr, 0, &turns, 0);
}

}  // namespace folio
