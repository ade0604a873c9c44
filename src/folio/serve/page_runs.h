#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/io/json.h"
#include "folio/run/growing_lines.h"
#include "folio/serve/http.h"
#include "folio/serve/request_fields.h"

namespace folio {

// A line of metrics.jsonl as an object with an integer "step"; nothing for one that is damaged.
std::optional<Json> ParseMetricsRow(std::string_view line);

// Returns where the page shows the run of a directory, which need not exist: the part of the URL
// after the service's own.
std::string PageUrlPath(const std::filesystem::path& run);

// The runs below some directories. No path is made from a request: a run has the name of its
// directory, and is found by listing.
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

// The numbers of a run's metrics.jsonl, by key. The file is read to its end, and further when it
// has grown.
class RunTable {
 public:
  // Axes are what series are drawn over, Keys what is drawn.
  static const std::vector<std::string>& Axes();
  static const std::vector<std::string>& Keys();

  explicit RunTable(const std::filesystem::path& run);

  // Reads the rows that were appended. Throws an ApiError for a log of too many rows.
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
  // [{"step", "event", "text"}]: the beginning of the log, the lowest held-out loss so far, skipped
  // steps, rollbacks, and why training ended by itself.
  Json Events() const;

 private:
  struct Track {
    std::vector<uint32_t> rows;
    std::vector<double> values;
  };
  void Clear();
  void Add(const Json& row);

  GrowingLines lines_;
  std::map<std::string, std::vector<double>> axes_;  // a value of each row
  std::map<std::string, Track> tracks_;
  Json events_;
};

// RunEvents tells listeners of events in the runs: rows that are appended, runs that begin, end and
// disappear. Listeners who wait look for new events themselves, so that nothing is done where
// nobody listens. The last events are kept for listeners who come back.
class RunEvents {
 public:
  static constexpr double kPollSeconds = 0.25;  // how often the logs are looked at
  static constexpr double kListSeconds = 1;     // how often runs are looked for, and their states

  // `registry` must outlive it.
  explicit RunEvents(RunRegistry& registry);

  struct Event {
    uint64_t id = 0;
    std::string text;  // as it is sent
  };
  // Returns where a listener begins: after the event `last` that it had before, if all later events
  // are still kept (`resumed`), or now.
  struct Place {
    uint64_t last = 0;
    bool resumed = false;
  };
  Place Begin(std::optional<uint64_t> last);
  // Returns the events after the place, and moves it behind them.
  std::vector<Event> News(Place& place);

 private:
  struct Watched {
    std::string id;  // of the run, when it was first seen
    GrowingLines lines;
    Json told = {};        // the last state that was told
    bool rewound = false;  // and that was not told yet
    bool seen = false;     // at this look
  };

  void Poll();
  void Tell(const char* name, const Json& data);
  void LookAt(const RunRegistry::Run& run, bool state_too);

  RunRegistry& registry_;
  std::mutex mutex_;
  std::map<std::string, Watched> runs_;  // by directory
  std::vector<RunRegistry::Run> listed_;
  std::deque<Event> events_;
  size_t kept_bytes_ = 0;
  uint64_t forgotten_, newest_;  // ids: the last that is kept no more, and the last of all
  double polled_ = 0, listed_at_ = 0;
  bool begun_ = false;
};

// The runs of a service, as the page shows them (web/API.md). Reading takes no lock of theirs. All
// of it throws ApiErrors.
class PageRuns {
 public:
  // The runs in these directories; `streams` of events at a time; of this version of the program.
  PageRuns(const std::vector<std::filesystem::path>& directories, int64_t streams,
           std::string version);

  bool empty() const { return registry_.empty(); }

  // GET /api/runs
  HttpReply List(const Call& call);
  // GET /api/runs/ID, and its series and samples
  HttpReply One(const Call& call);
  HttpReply Series(const Call& call);
  HttpReply Samples(const Call& call);
  // The directory of the newest checkpoint of the run of that id, and its step. Throws an ApiError:
  // 404 where there is no such run, 409 where it has no checkpoint.
  std::pair<std::filesystem::path, int64_t> NewestCheckpoint(const std::string& id) const;
  // Throws an ApiError: 404 where there is no such run, 409 where nobody trains in it.
  void RequireRunning(const std::string& id) const;
  // GET /api/events: a stream that ends with its reader or the service.
  HttpReply Events(const Call& call);

 private:
  // Calls use(table) with the table of a run as it is now; one at a time. The last few are kept.
  template <class Use>
  void WithTable(const RunRegistry::Run& run, const Use& use);

  int64_t streams_;
  std::string version_;
  RunRegistry registry_;
  RunEvents events_;
  std::atomic<int64_t> listening_ = 0;
  std::mutex mutex_;
  std::list<std::pair<std::filesystem::path, RunTable>> tables_;  // the last used first
};

}  // namespace folio
