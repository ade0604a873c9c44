#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "folio/run/growing_lines.h"
#include "folio/serve/run_registry.h"

namespace folio {

// RunEvents tells all who listen what happens in the runs: rows that are appended, runs that begin,
// end and go. Whoever waits for news looks for them, so that nothing is done where nobody listens.
// The last events are kept, for listeners who come back.
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
  // Where a listener begins: behind the event `last` that it had before, if all that followed is
  // still kept (`resumed`), or now.
  struct Place {
    uint64_t last = 0;
    bool resumed = false;
  };
  Place Begin(std::optional<uint64_t> last);
  // Returns the events after the place, which it leads behind them.
  std::vector<Event> News(Place& place);

 private:
  struct Watched {
    GrowingLines lines;
    Json told = {};        // of its state and its end
    bool rewound = false;  // and nobody was told yet
    bool seen = false;     // at this look
  };

  void Poll();
  void Tell(const char* name, const Json& data);
  void LookAt(const RunRegistry::Run& run, bool state_too);

  RunRegistry& registry_;
  std::mutex mutex_;
  std::map<std::string, Watched> runs_;  // by directory
  std::map<std::string, std::string> ids_;
  std::vector<RunRegistry::Run> listed_;
  std::deque<Event> events_;
  size_t kept_bytes_ = 0;
  uint64_t forgotten_, newest_;  // ids: the last that is kept no more, and the last of all
  double polled_ = 0, listed_at_ = 0;
  bool begun_ = false;
};

}  // namespace folio
