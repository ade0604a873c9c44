#include "folio/base/cgroups.h"

#include <algorithm>
#include <fstream>

namespace folio {
namespace {

using Limit = std::function<double(const std::filesystem::path& group)>;

// Returns the least limit of a cgroup and of all above it, in the hierarchy that is mounted at
// `mount`.
double LeastWithin(const std::filesystem::path& mount, std::filesystem::path group,
                   const Limit& limit) {
  double least = limit(mount);
  for (; group.has_relative_path(); group = group.parent_path()) {
    least = std::min(least, limit(mount / group.relative_path()));
  }
  return least;
}

}  // namespace

std::string FirstLine(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Lines of `own` are "hierarchy:controllers:path"; without controllers it is version 2. Several
// controllers may be mounted together, in a directory that lists them in whatever order, with a
// link of each one's name to it.
double LeastOfCgroups(const CgroupFiles& files, const std::string& controller, const Limit& limit) {
  const std::filesystem::path mounts = files.mounts;
  std::ifstream lines(files.own);
  double least = kNoLimit;
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::filesystem::path group = line.substr(second + 1);
    const auto within = [&](const std::string& mount) {
      least = std::min(least, LeastWithin(mounts / mount, group, limit));
    };
    if (controllers.empty()) {
      within("."), within("unified");
    } else if (("," + controllers + ",").find("," + controller + ",") != std::string::npos) {
      within(controllers), within(controller);
    }
  }
  return least;
}

}  // namespace folio
