#include "folio/serve/page_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <deque>
#include <functional>
#include <optional>
#include <system_error>

#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/run/plot_runs.h"
#include "folio/run/run_directory.h"
#include "folio/serve/api_error.h"
#include "folio/serve/event_stream.h"
#include "folio/serve/gvz.h"
#include "folio/serve/page_query.h"
#include "folio/serve/request_fields.h"
#include "folio/train/checkpoints.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// Lists a directory; directories in it have no size.
Json FilesOf(const fs::path& dir) {
  constexpr size_t kMost = 200;
  Json files = Json::array();
  std::error_code failed, ignored;
  for (fs::directory_iterator it(dir, failed), end; !failed && it != end && files.size() < kMost;
       it.increment(failed)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with('.')) continue;
    if (it->is_directory(ignored)) {
      files.push_back({{"name", name + "/"}});
    } else if (it->is_regular_file(ignored)) {
      files.push_back({{"name", name}, {"bytes", it->file_size(ignored)}});
    }
  }
  return files;
}

// The checkpoints of earlier steps, as events.
void AddCheckpoints(const fs::path& dir, Json& events) {
  constexpr size_t kMost = 2000;
  std::error_code failed;
  std::vector<int64_t> steps;
  for (fs::directory_iterator it(dir / kStepsDir, failed), end;
       !failed && it != end && steps.size() < kMost; it.increment(failed)) {
    const std::string name = it->path().filename().string();
    int64_t step = 0;
    const char* last = name.data() + name.size();
    const auto [rest, error] = std::from_chars(name.data(), last, step);
    if (error == std::errc() && rest == last) steps.push_back(step);
  }
  std::ranges::sort(steps);
  for (const int64_t step : steps) {
    events.push_back(
        {{"step", step}, {"event", "checkpoint"}, {"text", fmt::format("{}/{}", kStepsDir, step)}});
  }
}

Json SettingsJson(const fs::path& dir) {
  Json json = Json::object();
  try {
    for (const auto& [key, value] : SettingsOfRun(dir)) json[key] = value;
  } catch (const Error&) {  // a config.toml that is none: the rest can be shown
  }
  return json;
}

// A listener is counted as long as its stream lives.
class Listener {
 public:
  explicit Listener(std::atomic<int64_t>& count) : count_(count) { ++count_; }
  ~Listener() { --count_; }
  Listener(const Listener&) = delete;

 private:
  std::atomic<int64_t>& count_;
};

std::optional<uint64_t> LastEventOf(const HttpRequest& request) {
  const std::string given = request.header("Last-Event-ID");
  uint64_t id = 0;
  const auto [rest, error] = std::from_chars(given.data(), given.data() + given.size(), id);
  if (given.empty() || error != std::errc() || rest != given.data() + given.size()) return {};
  return id;
}

// RunEventStream sends what happens in the runs to one who listens.
class RunEventStream final : public HttpStream {
 public:
  RunEventStream(RunEvents& events, std::shared_ptr<Listener> listener, std::string version,
                 const HttpRequest& request)
      : events_(events),
        listener_(std::move(listener)),
        version_(std::move(version)),
        last_(LastEventOf(request)),
        stopping_(request.stopping) {}

  bool quick() const override { return false; }

  Part Next() override {
    const double now = SteadySeconds();
    if (!place_) return {.bytes = Hello(now), .seconds = RunEvents::kPollSeconds};
    if (stopping_() && !end_) end_ = now + RunEvents::kListSeconds;
    // A run may have ended just now, as where its own process serves it: that is told, too.
    Part part{.ended = end_ && now >= *end_, .seconds = RunEvents::kPollSeconds};
    for (const RunEvents::Event& event : events_.News(*place_)) part.bytes += event.text;
    if (part.bytes.empty() && now - said_ > kHeartbeatSeconds) part.bytes = kHeartbeat;
    if (!part.bytes.empty()) said_ = now;
    return part;
  }

 private:
  std::string Hello(double now) {
    place_ = events_.Begin(last_);
    said_ = now;
    const Json server{{"resumed", place_->resumed}, {"version", version_}, {"time", WallSeconds()}};
    return NamedEvent("server", server, fmt::format("{}", place_->last));
  }

  RunEvents& events_;
  std::shared_ptr<Listener> listener_;
  std::string version_;
  std::optional<uint64_t> last_;
  std::function<bool()> stopping_;
  std::optional<RunEvents::Place> place_;
  std::optional<double> end_;  // when it ends, where the service does
  double said_ = 0;
};

}  // namespace

PageRuns::PageRuns(RunsOptions options)
    : options_(std::move(options)), registry_(options_.directories), events_(registry_) {}

template <class Use>
void PageRuns::WithTable(const RunRegistry::Run& run, const Use& use) {
  constexpr size_t kMostTables = 4;
  const std::lock_guard lock(mutex_);
  auto found =
      std::ranges::find_if(tables_, [&](const auto& table) { return table.first == run.dir; });
  if (found == tables_.end()) {
    tables_.emplace_front(run.dir, RunTable(run.dir));
    if (tables_.size() > kMostTables) tables_.pop_back();
    found = tables_.begin();
  }
  tables_.splice(tables_.begin(), tables_, found);
  found->second.Update();
  use(std::as_const(found->second));
}

HttpReply PageRuns::List() {
  std::vector<std::pair<double, Json>> found;
  for (const RunRegistry::Run& run : registry_.List()) {
    Json summary = registry_.Summary(run);
    const double updated = summary["updated"].get<double>();
    found.emplace_back(-updated, std::move(summary));
  }
  std::ranges::stable_sort(found, {}, [](const auto& one) { return one.first; });
  Json runs = Json::array();
  for (auto& [order, summary] : found) runs.push_back(std::move(summary));
  return {.body = Json{{"runs", runs}}.dump()};
}

HttpReply PageRuns::One(const std::string& id) {
  const RunRegistry::Run run = registry_.Named(id);
  Json json = registry_.Summary(run);
  Json events = Json::array();
  AddCheckpoints(run.dir, events);
  WithTable(run, [&](const RunTable& table) {
    for (const Json& event : table.events()) events.push_back(event);
    json["keys"] = table.KnownKeys();
  });
  json["config"] = SettingsJson(run.dir);
  json["files"] = FilesOf(run.dir);
  json["events"] = events;
  return {.body = json.dump()};
}

HttpReply PageRuns::Series(const std::string& id, const HttpRequest& request) {
  const PageQuery query(request);
  RunTable::Range range{.from = query.NumberIfAny("from"), .to = query.NumberIfAny("to")};
  range.px = query.Integer("px", range.px, 16, 4000);
  if (const std::string x = query.Text("x"); !x.empty()) range.x = x;
  if (std::ranges::count(RunTable::Axes(), range.x) == 0) {
    ThrowBadField("x", "one of " + Join(RunTable::Axes(), ", "));
  }
  const std::string asked = query.Text("keys");
  const std::vector<std::string> keys =
      asked.empty() ? std::vector<std::string>{"loss"} : Split(asked, ',');
  for (const std::string& key : keys) {
    if (std::ranges::count(RunTable::Keys(), key) == 0) {
      ThrowBadField("keys", "of " + Join(RunTable::Keys(), ", "));
    }
  }
  if (keys.size() > RunTable::Keys().size()) ThrowBadField("keys", "each of them once");
  Json series = Json::object();
  int64_t rows = 0;
  WithTable(registry_.Named(id), [&](const RunTable& table) {
    rows = table.RowsIn(range);
    for (const std::string& key : keys) series[key] = table.Series(key, range);
  });
  return {.body = Json{{"run", id}, {"x", range.x}, {"n_raw", rows}, {"keys", series}}.dump()};
}

HttpReply PageRuns::Samples(const std::string& id) {
  constexpr uint64_t kMostBytes = 4 << 20;
  constexpr size_t kMost = 1000;
  GrowingLines lines(registry_.Named(id).dir / kSamplesFile);
  if (const uint64_t size = lines.left(); size > kMostBytes) lines.SkipTo(size - kMostBytes);
  std::deque<Json> last;
  lines.Read(kMostBytes, [&](std::string_view line) {
    const std::optional<Json> row = ParseMetricsRow(line);
    if (!row || !row->contains("text")) return;
    last.push_back({{"step", (*row)["step"]}, {"text", (*row)["text"]}});
    if (const Json* prompt = row->find("prompt")) last.back()["prompt"] = *prompt;
    if (last.size() > kMost) last.pop_front();
  });
  Json samples = Json::array();
  for (Json& sample : last) samples.push_back(std::move(sample));
  return {.body = samples.dump()};
}

HttpReply PageRuns::Events(const HttpRequest& request) {
  auto listener = std::make_shared<Listener>(listening_);
  if (listening_ > options_.streams) {
    throw ApiError(429, fmt::format("{} listen already; try again later", options_.streams));
  }
  HttpReply reply{.type = "text/event-stream", .headers = {{"Cache-Control", "no-cache"}}};
  reply.stream =
      std::make_shared<RunEventStream>(events_, std::move(listener), options_.version, request);
  return reply;
}

}  // namespace folio
