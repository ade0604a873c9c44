#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <list>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "folio/serve/http.h"
#include "folio/serve/run_events.h"
#include "folio/serve/run_registry.h"
#include "folio/serve/run_table.h"

namespace folio {

struct RunsOptions {
  std::vector<std::filesystem::path> directories = {};  // in which the runs are
  int64_t streams = 32;                                 // of events, at a time
  std::string version = {};                             // of the program
};

// The runs of a service, as the page shows them (web/API.md). Reading takes no lock of theirs. All
// of it throws ApiErrors.
class PageRuns {
 public:
  explicit PageRuns(RunsOptions options);

  bool empty() const { return registry_.empty(); }
  int64_t streams() const { return options_.streams; }

  // GET /api/runs
  HttpReply List();
  // GET /api/runs/ID, and its series and samples
  HttpReply One(const std::string& id);
  HttpReply Series(const std::string& id, const HttpRequest& request);
  HttpReply Samples(const std::string& id);
  // GET /api/events: a stream that ends with its reader or the service.
  HttpReply Events(const HttpRequest& request);

 private:
  // Calls use(table) with the table of a run as it is now; one at a time. The last few are kept.
  template <class Use>
  void WithTable(const RunRegistry::Run& run, const Use& use);

  RunsOptions options_;
  RunRegistry registry_;
  RunEvents events_;
  std::atomic<int64_t> listening_ = 0;
  std::mutex mutex_;
  std::list<std::pair<std::filesystem::path, RunTable>> tables_;  // the last used first
};

}  // namespace folio
