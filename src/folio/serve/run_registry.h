#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "folio/io/json.h"

namespace folio {

// A line of metrics.jsonl as an object with an integer "step"; nothing for one that is damaged.
std::optional<Json> ParseMetricsRow(std::string_view line);

// Where the page shows the run of a directory, be that there or not: what follows the service's
// URL.
std::string PageUrlPath(const std::filesystem::path& run);

// The runs below some directories, as far as they have come. Nothing of a request becomes a path: a
// run is called by the name of its directory, and found by listing.
class RunRegistry {
 public:
  static constexpr size_t kMostRuns = 1000;

  // A directory that is a run itself is taken as one. Where two runs have one name, the first
  // counts.
  explicit RunRegistry(const std::vector<std::filesystem::path>& directories);

  struct Run {
    std::string id;
    std::filesystem::path dir;
  };
  // Returns the runs that are there now, at most kMostRuns.
  std::vector<Run> List() const;
  // Throws an ApiError (404).
  Run Named(const std::string& id) const;
  bool empty() const { return directories_.empty(); }

  // Returns what is known of a run at one look (web/API.md); by many threads at once.
  Json Summary(const Run& run);

 private:
  // Remembered holds what does not change as long as the files of a run do not.
  struct Remembered {
    std::filesystem::file_time_type log_time = {}, config_time = {};
    uint64_t log_size = 0;
    Json summary = {};
    bool ended = false;
    std::optional<double> left = {};  // seconds until all steps are made
    std::string problem = {};         // of its settings
  };

  std::vector<std::filesystem::path> directories_;
  std::mutex mutex_;
  std::map<std::filesystem::path, Remembered> remembered_;
};

}  // namespace folio
