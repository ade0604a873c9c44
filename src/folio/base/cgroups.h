#pragma once

#include <filesystem>
#include <functional>
#include <limits>
#include <string>

namespace folio {

inline constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// The files in which Linux tells of the limits of containers.
struct CgroupFiles {
  std::string own = "/proc/self/cgroup";
  std::string mounts = "/sys/fs/cgroup";
};

// The least that `limit` gives for the directories of this process's cgroups and of all above them:
// those of version 2, and those of version 1 that have this controller ("cpu", "memory"). kNoLimit
// where there are none.
double LeastOfCgroups(const CgroupFiles& files, const std::string& controller,
                      const std::function<double(const std::filesystem::path& group)>& limit);

// The first line of a file, empty if there is none.
std::string FirstLine(const std::filesystem::path& path);

}  // namespace folio
