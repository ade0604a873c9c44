#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace folio::soak {

// The resources of a process at a moment.
struct Reading {
  double megabytes = 0;  // resident
  int64_t handles = 0, threads = 0;
};

// The development of a process's readings. The first third is its warm-up.
struct Level {
  double second_megabytes = 0, last_megabytes = 0;  // medians of the second and the last third
  int64_t second_handles = 0, last_handles = 0;     // minima: files are open for a moment too
  int64_t second_threads = 0, last_threads = 0;

  // Describes what grows: the last third's memory more than 2 % and 4 MB above the second's, or a
  // handle or thread more. "" if nothing does.
  std::string Wrong() const {
    if (last_megabytes > 1.02 * second_megabytes + 4) {
      return fmt::format("memory grew from {:.1f} to {:.1f} MB", second_megabytes, last_megabytes);
    }
    if (last_handles > second_handles) {
      return fmt::format("file handles grew from {} to {}", second_handles, last_handles);
    }
    if (last_threads > second_threads) {
      return fmt::format("threads grew from {} to {}", second_threads, last_threads);
    }
    return "";
  }
};

// REQUIRES: there are three readings or more.
inline Level LevelOf(const std::vector<Reading>& readings) {
  const size_t third = readings.size() / 3;
  const auto part = [&](size_t end) {
    return std::vector<Reading>(readings.end() - static_cast<std::ptrdiff_t>(end),
                                readings.end() - static_cast<std::ptrdiff_t>(end - third));
  };
  const auto median = [](std::vector<Reading> some) {
    std::ranges::sort(some, {}, &Reading::megabytes);
    return some[some.size() / 2].megabytes;
  };
  const std::vector<Reading> second = part(2 * third), last = part(third);
  return {.second_megabytes = median(second),
          .last_megabytes = median(last),
          .second_handles = std::ranges::min(second, {}, &Reading::handles).handles,
          .last_handles = std::ranges::min(last, {}, &Reading::handles).handles,
          .second_threads = std::ranges::min(second, {}, &Reading::threads).threads,
          .last_threads = std::ranges::min(last, {}, &Reading::threads).threads};
}

}  // namespace folio::soak
