#include "folio/serve/run_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "folio/base/clock.h"
#include "folio/serve/event_stream.h"
#include "folio/train/run_log.h"

namespace folio {
namespace {

constexpr size_t kMostKept = 512, kMostKeptBytes = 8 << 20;  // events
constexpr uint64_t kPieceBytes = 128 << 10;                  // of a log at one look
constexpr uint64_t kFarBehind = 1 << 20;                     // bytes that nobody waits for any more

// Larger than that of any event of an earlier service, but for clocks that are set back; JavaScript
// holds it.
uint64_t FirstId() {
  return static_cast<uint64_t>(WallSeconds() * 1e3) * 1000;
}

}  // namespace

RunEvents::RunEvents(RunRegistry& registry)
    : registry_(registry), forgotten_(FirstId()), newest_(forgotten_) {}

RunEvents::Place RunEvents::Begin(std::optional<uint64_t> last) {
  const std::lock_guard lock(mutex_);
  // A listener that begins may have seen runs that were not there at the last look, and wants to
  // hear of their end.
  listed_at_ = polled_ = 0;
  Poll();
  if (last && *last >= forgotten_ && *last <= newest_) return {.last = *last, .resumed = true};
  return {.last = newest_};
}

std::vector<RunEvents::Event> RunEvents::News(Place& place) {
  const std::lock_guard lock(mutex_);
  Poll();
  std::vector<Event> news;
  // One who is too slow for what is kept goes on with what there is, and hears that it did.
  if (place.last < forgotten_) {
    place = {.last = newest_};
    const Json json{{"resumed", false}};
    return {{newest_, NamedEvent("server", json, fmt::format("{}", newest_))}};
  }
  for (const Event& event : events_) {
    if (event.id > place.last) news.push_back(event);
  }
  place.last = newest_;
  return news;
}

void RunEvents::Tell(const char* name, const Json& data) {
  ++newest_;
  events_.push_back({newest_, NamedEvent(name, data, fmt::format("{}", newest_))});
  kept_bytes_ += events_.back().text.size();
  while (events_.size() > kMostKept || (kept_bytes_ > kMostKeptBytes && events_.size() > 1)) {
    forgotten_ = events_.front().id;
    kept_bytes_ -= events_.front().text.size();
    events_.pop_front();
  }
}

void RunEvents::Poll() {
  const double now = SteadySeconds();
  if (begun_ && now - polled_ < kPollSeconds) return;
  polled_ = now;
  const bool list = !begun_ || now - listed_at_ >= kListSeconds;
  if (list) {
    listed_at_ = now;
    listed_ = registry_.List();
    for (auto& [dir, watched] : runs_) watched.seen = false;
  }
  for (const RunRegistry::Run& run : listed_) LookAt(run, list);
  if (list) {
    std::erase_if(runs_, [&](const auto& one) {
      if (one.second.seen) return false;
      const auto id = ids_.extract(one.first);
      Tell("run.state", {{"run", id.mapped()}, {"state", "gone"}, {"rewound", false}});
      return true;
    });
  }
  begun_ = true;
}

void RunEvents::LookAt(const RunRegistry::Run& run, bool state_too) {
  const std::string dir = run.dir.string();
  const auto [found, added] = runs_.try_emplace(dir, Watched{GrowingLines(run.dir / kMetricsFile)});
  Watched& watched = found->second;
  watched.seen = true;
  bool rewound = false;
  if (added) {
    ids_[dir] = run.id;
    watched.lines.SkipToEnd();
  } else {
    watched.rewound =
        watched.lines.Rewound() || watched.lines.left() > kFarBehind || watched.rewound;
    std::error_code ignored;
    // The log is on its way out, or there again in a moment.
    if (watched.rewound && !std::filesystem::exists(run.dir / kMetricsFile, ignored)) return;
    rewound = std::exchange(watched.rewound, false);
    if (rewound) watched.lines.SkipToEnd();
  }
  if (!rewound) {
    Json rows = Json::array();
    watched.lines.Read(kPieceBytes, [&](std::string_view line) {
      if (std::optional<Json> row = ParseMetricsRow(line)) rows.push_back(std::move(*row));
    });
    if (!rows.empty()) Tell("run.append", {{"run", run.id}, {"rows", rows}});
  }
  if (!state_too && !rewound) return;
  const Json summary = registry_.Summary(run);
  Json told = Json::object();
  for (const char* key : {"state", "max_steps", "eta", "problem"}) {
    if (const Json* value = summary.find(key)) told[key] = *value;
  }
  // A state that is there at the first look is no news.
  const bool news = begun_ && (added || told != watched.told);
  watched.told = told;
  if (!news && !rewound) return;
  Json data{{"run", run.id}};
  data.update(summary);
  data["rewound"] = rewound;
  Tell("run.state", data);
}

}  // namespace folio
