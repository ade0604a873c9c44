#include "folio/serve/page_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <system_error>

#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/io/posix.h"
#include "folio/run/plot_runs.h"
#include "folio/run/run_directory.h"
#include "folio/serve/page_files.h"
#include "folio/train/checkpoints.h"
#include "folio/train/run_log.h"
#include "folio/train/train_state.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// Returns true for any entry of that name, so that one that cannot be read is reported.
bool HasEntry(const fs::path& file) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(file, ignored));
}

bool IsRun(const fs::path& dir) {
  return HasEntry(dir / kMetricsFile) || HasEntry(dir / kRunConfigFile);
}

// Returns why a run's log cannot be read; "" where it can, or there is none yet.
std::string ProblemOfLog(const fs::path& log) {
  if (!HasEntry(log)) return "";
  try {
    internal::OpenForReading(log);
  } catch (const Error& error) {
    // A log that has just disappeared is no problem.
    return HasEntry(log) ? fmt::format("{}: {}", kMetricsFile, error.cause()) : "";
  }
  std::error_code failed;
  const uint64_t size = fs::file_size(log, failed);
  if (failed || size <= kMostLogBytes) return "";
  return fmt::format("{}: it has {} bytes, at most {} are allowed", kMetricsFile, size,
                     kMostLogBytes);
}

// Returns the absolute path without a slash at its end, so that "." has a name too.
fs::path Whole(const fs::path& given) {
  const fs::path dir = fs::absolute(given).lexically_normal();
  return dir.has_filename() ? dir : dir.parent_path();
}

// Returns the whole lines in the last kTail bytes of a file, the last line first.
std::vector<std::string> LastLines(const fs::path& file) {
  constexpr uint64_t kTail = 256 << 10;
  std::vector<std::string> lines;
  GrowingLines reader(file);
  const uint64_t size = reader.left();
  reader.SkipTo(size > kTail ? size - kTail : 0);
  reader.Read(kTail, [&](std::string_view line) { lines.emplace_back(line); });
  std::ranges::reverse(lines);
  return lines;
}

// `problem` is why the settings cannot be read, if they cannot.
std::optional<int64_t> MaxSteps(const fs::path& dir, std::string& problem) {
  try {
    const auto settings = SettingsOfRun(dir);
    const auto found = settings.find("train.max_steps");
    if (found == settings.end()) return {};
    return ParsedNumber<int64_t>(found->second);
  } catch (const Error& error) {
    problem = fmt::format("{}: {}", kRunConfigFile, error.cause());
  }
  return {};
}

fs::file_time_type TimeOf(const fs::path& file) {
  std::error_code failed;
  const fs::file_time_type time = fs::last_write_time(file, failed);
  return failed ? fs::file_time_type::min() : time;  // whose zero lies in the future
}

// Seconds until a run has made all its steps, by what the steps between two rows took, with their
// evaluations.
std::optional<double> TimeLeft(const Json& from, const Json& to, int64_t max_steps) {
  const Json *began = from.find("seconds"), *ended = to.find("seconds");
  if (began == nullptr || ended == nullptr || !began->is_number() || !ended->is_number()) return {};
  const auto last = to["step"].get<int64_t>();
  const double steps = static_cast<double>(last - from["step"].get<int64_t>());
  const double seconds = ended->get<double>() - began->get<double>();
  if (!(steps > 0) || !(seconds > 0)) return {};
  return std::max(0.0, static_cast<double>(max_steps - 1 - last) * seconds / steps);
}

// Returns what the log's end says; `left` follows from its last rows, or from its only one.
Json SummaryOf(const fs::path& dir, std::optional<int64_t> max_steps, bool& ended,
               std::optional<double>& left) {
  constexpr size_t kRecent = 100;  // rows
  Json summary = Json::object();
  if (max_steps) summary["max_steps"] = *max_steps;
  ended = false;
  const std::vector<std::string> lines = LastLines(dir / kMetricsFile);
  for (const std::string& line : lines) {
    const std::optional<Json> row = ParseMetricsRow(line);
    if (!row) continue;
    if (!summary.contains("step")) {
      std::optional<Json> from = Json{{"step", -1}, {"seconds", 0}};
      if (lines.size() > 1) from = ParseMetricsRow(lines[std::min(kRecent, lines.size() - 1)]);
      if (max_steps && from) left = TimeLeft(*from, *row, *max_steps);
      const auto step = (*row)["step"].get<int64_t>();
      summary["step"] = step;
      ended = row->contains("ended_by") ||
              (max_steps && step + (row->contains("loss") ? 1 : 0) >= *max_steps);
    }
    bool all = true;
    for (const char* key : {"loss", "val_loss", "lr", "tokens", "tokens_per_second", "seconds"}) {
      if (!summary.contains(key) && row->contains(key)) summary[key] = (*row)[key];
      all = all && summary.contains(key);
    }
    if (!summary.contains("ended_by") && row->contains("ended_by")) {
      summary["ended_by"] = (*row)["ended_by"];
    }
    if (all) break;
  }
  return summary;
}

}  // namespace

std::optional<Json> ParseMetricsRow(std::string_view line) {
  try {
    Json row = ParseJson(line, "a row");
    const Json* step = row.find("step");
    if (step != nullptr && step->is_number_integer() && std::abs(step->get<double>()) < 1e15) {
      return row;
    }
  } catch (const Error&) {  // no JSON
  }
  return {};
}

std::string PageUrlPath(const fs::path& run) {
  std::string place = "/#/runs?r=";
  for (const char c : Whole(run).filename().string()) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (byte < 0x80 && std::isalnum(byte) != 0) || c == '-' || c == '_' || c == '.';
    place += plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return place;
}

RunRegistry::RunRegistry(const std::vector<fs::path>& directories) {
  for (const fs::path& given : directories) directories_.push_back(Whole(given));
}

std::vector<RunRegistry::Run> RunRegistry::List() const {
  constexpr int kMostEntries = 20'000;  // of a directory
  std::vector<Run> runs;
  const auto add = [&](const fs::path& dir) {
    const std::string id = dir.filename().string();
    if (runs.size() >= kMostRuns || id.starts_with('.') || !IsRun(dir)) return;
    if (std::ranges::count(runs, id, &Run::id) == 0) runs.push_back({id, dir});
  };
  for (const fs::path& directory : directories_) {
    std::error_code failed;
    if (IsRun(directory)) {
      add(directory);
      continue;
    }
    std::vector<fs::path> below;
    int entries = 0;
    for (fs::directory_iterator it(directory, failed), end;
         !failed && it != end && entries < kMostEntries; it.increment(failed), ++entries) {
      below.push_back(it->path());
    }
    std::ranges::sort(below);
    for (const fs::path& path : below) add(path);
  }
  return runs;
}

RunRegistry::Run RunRegistry::Named(const std::string& id) const {
  for (const Run& run : List()) {
    if (run.id == id) return run;
  }
  throw ApiError(404, fmt::format("there is no run '{}'", id.substr(0, 200)), "", "no_run");
}

Json RunRegistry::Summary(const Run& run) {
  const fs::path log = run.dir / kMetricsFile;
  std::error_code failed;
  uint64_t size = fs::file_size(log, failed);
  if (failed) size = 0;
  const fs::file_time_type log_time = TimeOf(log), config_time = TimeOf(run.dir / kRunConfigFile);
  Json summary{{"id", run.id}, {"state", nullptr}};
  bool ended = false;
  std::optional<double> left;
  std::string problem = ProblemOfLog(log);
  {
    const std::lock_guard lock(mutex_);
    if (remembered_.size() > 2 * kMostRuns) remembered_.clear();
    Remembered& known = remembered_[run.dir];
    if (known.summary.is_null() || known.log_time != log_time || known.log_size != size ||
        known.config_time != config_time) {
      known = {.log_time = log_time, .config_time = config_time, .log_size = size};
      const std::optional<int64_t> steps = MaxSteps(run.dir, known.problem);
      known.summary = SummaryOf(run.dir, steps, known.ended, known.left);
    }
    summary.update(known.summary);
    if (problem.empty()) problem = known.problem;
    ended = known.ended;
    left = known.left;
  }
  const bool running = IsLocked(run.dir);
  summary["state"] = running ? "running" : ended ? "ended" : "stopped";
  if (!problem.empty()) summary["problem"] = problem;
  if (running && left) summary["eta"] = ShortNumber(*left);
  const auto updated = std::chrono::file_clock::to_sys(std::max(log_time, config_time));
  summary["updated"] = std::chrono::duration<double>(updated.time_since_epoch()).count();
  return summary;
}

namespace {

constexpr size_t kMostRows = 1'000'000, kMostEvents = 1000;
constexpr uint64_t kPiece = 4 << 20;  // bytes that are read at a time
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Returns a value of metrics.jsonl: a number, or what JSON lacks by its name.
std::optional<double> ValueOf(const Json* json) {
  if (json == nullptr) return {};
  if (json->is_number()) return json->get<double>();
  if (*json == "nan") return kNan;
  if (*json == "inf") return HUGE_VAL;
  if (*json == "-inf") return -HUGE_VAL;
  return {};
}

// A Bucket sums the values that fall into it.
struct Bucket {
  double x = 0, sum = 0, low = kNan, high = kNan;
  int64_t all = 0, finite = 0;

  void Add(double at, double value) {
    if (all++ == 0 || at < x) x = at;
    if (!std::isfinite(value)) return;
    ++finite;
    sum += value;
    low = std::fmin(low, value);
    high = std::fmax(high, value);
  }
  double mean() const { return finite > 0 ? sum / static_cast<double>(finite) : kNan; }
};

// The points of a series, as arrays of JSON.
struct Columns {
  Json x = Json::array(), mean = Json::array(), low = Json::array(), high = Json::array();

  void Add(double at, double middle, double least, double most) {
    x.push_back(at);
    mean.push_back(ShortNumber(middle));
    low.push_back(ShortNumber(least));
    high.push_back(ShortNumber(most));
  }
};

bool Within(const RunTable::Range& range, double x) {
  return std::isfinite(x) && !(range.from && x < *range.from) && !(range.to && x > *range.to);
}

}  // namespace

const std::vector<std::string>& RunTable::Axes() {
  static const std::vector<std::string> axes = {"step", "tokens", "seconds", "time"};
  return axes;
}

const std::vector<std::string>& RunTable::Keys() {
  static const std::vector<std::string> keys = {"loss", "val_loss",  "train_eval_loss",
                                                "lr",   "grad_norm", "tokens_per_second"};
  return keys;
}

RunTable::RunTable(const std::filesystem::path& run) : lines_(run / kMetricsFile) {
  Clear();
}

void RunTable::Clear() {
  axes_.clear();
  tracks_.clear();
  events_ = Json::array();
  for (const std::string& axis : Axes()) axes_[axis];
}

void RunTable::Update() {
  if (lines_.Rewound()) Clear();
  if (lines_.left() > kMostLogBytes) return;  // the run's summary says so
  while (lines_.Read(kPiece, [&](std::string_view line) {
    if (const std::optional<Json> row = ParseMetricsRow(line)) Add(*row);
  })) {
  }
}

void RunTable::Add(const Json& row) {
  const size_t index = axes_["step"].size();
  if (index >= kMostRows) {
    throw ApiError(413, fmt::format("the log has more than {} rows", kMostRows));
  }
  for (auto& [axis, values] : axes_) values.push_back(ValueOf(row.find(axis)).value_or(kNan));
  for (const std::string& key : Keys()) {
    const std::optional<double> value = ValueOf(row.find(key));
    if (!value) continue;
    Track& track = tracks_[key];
    track.rows.push_back(static_cast<uint32_t>(index));
    track.values.push_back(*value);
  }
  const auto tell = [&](const char* key, const char* event) {
    const Json* text = row.find(key);
    if (text == nullptr || !text->is_string() || events_.size() >= kMostEvents) return;
    events_.push_back({{"step", row["step"]}, {"event", event}, {"text", *text}});
  };
  tell("skipped", "skipped");
  tell("rolled_back", "rolled_back");
  tell("ended_by", "ended");
}

Json RunTable::Events() const {
  Json events = Json::array();
  const auto step_of = [&](size_t row) { return static_cast<int64_t>(axes_.at("step")[row]); };
  if (!axes_.at("step").empty()) {
    events.push_back({{"step", step_of(0)}, {"event", "begun"}, {"text", ""}});
  }
  if (const auto found = tracks_.find("val_loss"); found != tracks_.end()) {
    const Track& track = found->second;
    size_t best = 0;
    const auto value = [&](size_t i) {
      return std::isnan(track.values[i]) ? HUGE_VAL : track.values[i];
    };
    for (size_t i = 1; i < track.values.size(); ++i) {
      if (value(i) < value(best)) best = i;
    }
    if (std::isfinite(track.values[best])) {
      events.push_back({{"step", step_of(track.rows[best])},
                        {"event", "best"},
                        {"text", fmt::format("held-out loss {:.4g}", track.values[best])}});
    }
  }
  for (const Json& event : events_) events.push_back(event);
  return events;
}

std::vector<std::string> RunTable::KnownKeys() const {
  std::vector<std::string> known;
  for (const std::string& key : Keys()) {
    if (tracks_.contains(key)) known.push_back(key);
  }
  return known;
}

int64_t RunTable::RowsIn(const Range& range) const {
  return std::ranges::count_if(axes_.at(range.x), [&](double x) { return Within(range, x); });
}

Json RunTable::Series(const std::string& key, const Range& range) const {
  static const Track kNone;
  const auto found = tracks_.find(key);
  const Track& track = found == tracks_.end() ? kNone : found->second;
  const std::vector<double>& axis = axes_.at(range.x);
  double first = kNan, last = kNan;
  int64_t count = 0;
  for (const uint32_t row : track.rows) {
    if (!Within(range, axis[row])) continue;
    ++count;
    first = std::fmin(first, axis[row]);
    last = std::fmax(last, axis[row]);
  }
  const bool raw = count <= range.px;
  const double width = (last - first) / static_cast<double>(range.px);
  Columns columns;
  std::vector<Bucket> buckets(raw ? 0 : static_cast<size_t>(range.px));
  for (size_t i = 0; i < track.rows.size(); ++i) {
    const double x = axis[track.rows[i]], value = track.values[i];
    if (!Within(range, x)) continue;
    if (raw) {
      columns.Add(x, value, value, value);
    } else {
      const double at = width > 0 ? (x - first) / width : 0;
      buckets[std::min(static_cast<size_t>(at), buckets.size() - 1)].Add(x, value);
    }
  }
  for (const Bucket& bucket : buckets) {
    if (bucket.all > 0) columns.Add(bucket.x, bucket.mean(), bucket.low, bucket.high);
  }
  return {{"x", columns.x},      {"mean", columns.mean}, {"min", columns.low},
          {"max", columns.high}, {"n", count},           {"raw", raw}};
}

namespace {

constexpr size_t kMostKept = 512, kMostKeptBytes = 8 << 20;  // events
constexpr uint64_t kPieceBytes = 128 << 10;                  // of a log at one look
constexpr uint64_t kFarBehind = 1 << 20;                     // bytes that nobody waits for any more

}  // namespace

// The first id is above those of an earlier service, unless the clock was set back, and exact in
// JavaScript.
RunEvents::RunEvents(RunRegistry& registry)
    : registry_(registry),
      forgotten_(static_cast<uint64_t>(WallSeconds() * 1e3) * 1000),
      newest_(forgotten_) {}

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
  // A listener that has missed events continues with the newest, and is told so.
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
      Tell("run.state", {{"run", one.second.id}, {"state", "gone"}, {"rewound", false}});
      return true;
    });
  }
  begun_ = true;
}

void RunEvents::LookAt(const RunRegistry::Run& run, bool state_too) {
  const auto [found, added] =
      runs_.try_emplace(run.dir.string(), Watched{run.id, GrowingLines(run.dir / kMetricsFile)});
  Watched& watched = found->second;
  watched.seen = true;
  bool rewound = false;
  if (added) {
    watched.lines.SkipToEnd();
  } else {
    watched.rewound =
        watched.lines.Rewound() || watched.lines.left() > kFarBehind || watched.rewound;
    std::error_code ignored;
    // The log may be there again in a moment.
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
  // The states at the first look are not told.
  const bool news = begun_ && (added || told != watched.told);
  watched.told = told;
  if (!news && !rewound) return;
  Json data{{"run", run.id}};
  data.update(summary);
  data["rewound"] = rewound;
  Tell("run.state", data);
}

namespace {

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
    if (const auto step = ParsedNumber<int64_t>(it->path().filename().string())) {
      steps.push_back(*step);
    }
  }
  std::ranges::sort(steps);
  for (const int64_t step : steps) {
    events.push_back(
        {{"step", step}, {"event", "checkpoint"}, {"text", fmt::format("{}/{}", kStepsDir, step)}});
  }
}

// The end of a run that says none in its log, as an event.
void AddEnd(const Json& summary, Json& events) {
  const Json& state = summary["state"];
  if (state == "running" || !summary.contains("step")) return;
  if (std::ranges::any_of(events, [](const Json& one) { return one["event"] == "ended"; })) return;
  const bool ended = state == "ended";
  events.push_back({{"step", summary["step"]},
                    {"event", ended ? "ended" : "stopped"},
                    {"text", ended ? "the run is complete" : "folio train --resume continues it"}});
}

Json SettingsJson(const fs::path& dir) {
  Json json = Json::object();
  try {
    for (const auto& [key, value] : SettingsOfRun(dir)) json[key] = value;
  } catch (const Error&) {  // a config.toml that is none: the rest can be shown
  }
  return json;
}

// RunEventStream sends the events of the runs to one listener, and is counted as long as it lives.
class RunEventStream final : public HttpStream {
 public:
  RunEventStream(RunEvents& events, std::atomic<int64_t>& listening, std::string version,
                 const HttpRequest& request)
      : events_(events),
        listening_(listening),
        version_(std::move(version)),
        last_(ParsedNumber<uint64_t>(request.header("Last-Event-ID"))),
        stopping_(request.stopping) {
    ++listening_;
  }
  ~RunEventStream() override { --listening_; }

  bool quick() const override { return false; }

  Part Next() override {
    const double now = SteadySeconds();
    if (!place_) return {.bytes = Hello(now), .seconds = RunEvents::kPollSeconds};
    if (stopping_() && !end_) end_ = now + RunEvents::kListSeconds;
    // A run that this process trains may end with the service, and its end is told too.
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
  std::atomic<int64_t>& listening_;
  std::string version_;
  std::optional<uint64_t> last_;
  std::function<bool()> stopping_;
  std::optional<RunEvents::Place> place_;
  std::optional<double> end_;  // when it ends, where the service does
  double said_ = 0;
};

}  // namespace

PageRuns::PageRuns(const std::vector<fs::path>& directories, int64_t streams, std::string version)
    : streams_(streams), version_(std::move(version)), registry_(directories), events_(registry_) {}

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

HttpReply PageRuns::List(const Call&) {
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

HttpReply PageRuns::One(const Call& call) {
  const RunRegistry::Run run = registry_.Named(call.names[0]);
  Json json = registry_.Summary(run);
  Json events = Json::array();
  AddCheckpoints(run.dir, events);
  WithTable(run, [&](const RunTable& table) {
    for (const Json& event : table.Events()) events.push_back(event);
    json["keys"] = table.KnownKeys();
  });
  AddEnd(json, events);
  json["config"] = SettingsJson(run.dir);
  json["files"] = FilesOf(run.dir);
  json["events"] = events;
  return {.body = json.dump()};
}

HttpReply PageRuns::Series(const Call& call) {
  const RequestFields& fields = call.fields;
  RunTable::Range range{.x = fields.Text("x", "step"),
                        .from = fields.NumberIfAny("from"),
                        .to = fields.NumberIfAny("to"),
                        .px = fields.Integer("px", 1200, 16, 4000)};
  if (std::ranges::count(RunTable::Axes(), range.x) == 0) {
    ThrowBadField("x", "one of " + Join(RunTable::Axes(), ", "));
  }
  const std::vector<std::string> keys = Split(fields.Text("keys", "loss"), ',');
  for (const std::string& key : keys) {
    if (std::ranges::count(RunTable::Keys(), key) == 0) {
      ThrowBadField("keys", "of " + Join(RunTable::Keys(), ", "));
    }
  }
  if (keys.size() > RunTable::Keys().size()) ThrowBadField("keys", "each once");
  Json series = Json::object();
  int64_t rows = 0;
  WithTable(registry_.Named(call.names[0]), [&](const RunTable& table) {
    rows = table.RowsIn(range);
    for (const std::string& key : keys) series[key] = table.Series(key, range);
  });
  return {
      .body =
          Json{{"run", call.names[0]}, {"x", range.x}, {"n_raw", rows}, {"keys", series}}.dump()};
}

HttpReply PageRuns::Samples(const Call& call) {
  constexpr uint64_t kMostBytes = 4 << 20;
  constexpr size_t kMost = 1000;
  GrowingLines lines(registry_.Named(call.names[0]).dir / kSamplesFile);
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

std::pair<fs::path, int64_t> PageRuns::NewestCheckpoint(const std::string& id) const {
  const RunRegistry::Run run = registry_.Named(id);
  const std::vector<fs::path> found = FindCheckpoints(run.dir);
  if (found.empty()) {
    throw ApiError(409, fmt::format("run '{}' has no checkpoint yet", id), "", "no_checkpoint");
  }
  return {found.front(), SavedStep(found.front())};
}

void PageRuns::RequireRunning(const std::string& id) const {
  if (IsLocked(registry_.Named(id).dir)) return;
  throw ApiError(409, fmt::format("run '{}' is not training now", id), "", "not_running");
}

HttpReply PageRuns::Events(const Call& call) {
  auto stream = std::make_shared<RunEventStream>(events_, listening_, version_, call.request);
  if (listening_ > streams_) {
    throw ApiError(429, fmt::format("{} clients are connected already; try again later", streams_));
  }
  return EventStreamReply(std::move(stream));
}

}  // namespace folio
