#include "folio/base/processors.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <thread>

namespace folio {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

std::string FirstLine(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
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

// The least of a cgroup and of all above it, in the hierarchy that is mounted at `mount`.
double ShareWithin(const std::filesystem::path& mount, std::filesystem::path group) {
  double share = ShareOf(mount);
  for (; group.has_relative_path(); group = group.parent_path()) {
    share = std::min(share, ShareOf(mount / group.relative_path()));
  }
  return share;
}

// Lines are "hierarchy:controllers:path"; without controllers it is version 2.
double ShareOfThisProcess(const ProcessorFiles& files) {
  const std::filesystem::path mounts = files.cgroups;
  std::ifstream lines(files.own_cgroups);
  double share = kNoLimit;
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::filesystem::path group = line.substr(second + 1);
    if (controllers.empty()) {
      share = std::min({share, ShareWithin(mounts, group), ShareWithin(mounts / "unified", group)});
    } else if (("," + controllers + ",").find(",cpu,") != std::string::npos) {
      share = std::min(share, ShareWithin(mounts / controllers, group));
    }
  }
  return share;
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
  const double limit = std::ceil(ShareOfThisProcess(files));
  const double threads = std::min(static_cast<double>(cores.size()), limit);
  return std::max(1, static_cast<int>(threads));
}

}  // namespace folio
