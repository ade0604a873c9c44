#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "folio/io/json.h"
#include "folio/run/growing_lines.h"

namespace folio {

// The numbers of a run's metrics.jsonl, by key: read as far as the file has come, and further when
// it has grown.
class RunTable {
 public:
  // Axes are what series are drawn over, Keys what is drawn.
  static const std::vector<std::string>& Axes();
  static const std::vector<std::string>& Keys();

  explicit RunTable(const std::filesystem::path& run);

  // Throws an ApiError for a log of too many rows. `run` is what ours was made for.
  void Update();

  struct Range {
    std::string x = "step";  // of Axes()
    std::optional<double> from = {}, to = {};
    int64_t px = 1200;  // buckets, at most
  };
  // {"n", "raw", "x", "mean", "min", "max"} of one of Keys(): the rows that have it, or buckets of
  // them if they are more than `px`.
  Json Series(const std::string& key, const Range& range) const;
  int64_t RowsIn(const Range& range) const;
  // Returns those of Keys() that any row has.
  std::vector<std::string> KnownKeys() const;
  // [{"step", "event", "text"}]: what was skipped, gone back from, and the end.
  const Json& events() const { return events_; }

 private:
  struct Track {
    std::vector<uint32_t> rows;
    std::vector<double> values;
  };
  void Clear();
  void Add(const Json& row);
  const std::vector<double>& Axis(const std::string& name) const;

  GrowingLines lines_;
  std::map<std::string, std::vector<double>> axes_;  // a value of each row
  std::map<std::string, Track> tracks_;
  Json events_;
};

}  // namespace folio
