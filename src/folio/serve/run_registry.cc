#include "folio/serve/run_registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <system_error>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/io/posix.h"
#include "folio/run/growing_lines.h"
#include "folio/run/plot_runs.h"
#include "folio/run/run_directory.h"
#include "folio/serve/api_error.h"
#include "folio/serve/page_numbers.h"
#include "folio/train/run_log.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// Whatever is there by that name: what cannot be read is told.
bool HasEntry(const fs::path& file) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(file, ignored));
}

bool IsRun(const fs::path& dir) {
  return HasEntry(dir / kMetricsFile) || HasEntry(dir / kRunConfigFile);
}

// Why a run's log cannot be read; "" where it can, or there is none yet.
std::string ProblemOfLog(const fs::path& log) {
  if (!HasEntry(log)) return "";
  try {
    internal::OpenForReading(log);
  } catch (const Error& error) {
    // One that has gone since is none of a run that cannot be read.
    return HasEntry(log) ? fmt::format("{}: {}", kMetricsFile, error.cause()) : "";
  }
  std::error_code failed;
  const uint64_t size = fs::file_size(log, failed);
  if (failed || size <= kMostLogBytes) return "";
  return fmt::format("{}: it has {} bytes, and such a file is read up to {}", kMetricsFile, size,
                     kMostLogBytes);
}

// A path that has a name, of "." too.
fs::path Whole(const fs::path& given) {
  const fs::path dir = fs::absolute(given).lexically_normal();
  return dir.has_filename() ? dir : dir.parent_path();
}

// The last whole lines of a file, the last first, of at most so many bytes.
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
    int64_t steps = 0;
    const char* end = found->second.data() + found->second.size();
    if (std::from_chars(found->second.data(), end, steps).ptr == end) return steps;
  } catch (const Error& error) {
    problem = fmt::format("{}: {}", kRunConfigFile, error.cause());
  }
  return {};
}

// Unix time in seconds.
double UnixSeconds(fs::file_time_type time) {
  const auto system = std::chrono::file_clock::to_sys(time);
  return std::chrono::duration<double>(system.time_since_epoch()).count();
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
  summary["updated"] = UnixSeconds(std::max(log_time, config_time));
  return summary;
}

}  // namespace folio
