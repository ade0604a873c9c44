#include "folio/run/plot_runs.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/io/file.h"
#include "folio/run/run_directory.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// All keys of config.toml with their values as TOML writes them. Whatever folio wrote it, so
// nothing is checked but that it is TOML.
std::map<std::string, std::string> ReadSettings(const fs::path& path) {
  constexpr uint64_t kMaxBytes = 1 << 20;
  toml::table root;
  try {
    root = toml::parse(ReadFile(path, kMaxBytes), path.string());
  } catch (const toml::parse_error& error) {
    throw InputError(fmt::format("{}:{}: not valid TOML", path.string(), error.source().begin.line),
                     std::string(error.description()));
  }
  std::map<std::string, std::string> settings;
  for (const auto& [section_key, section] : root) {
    if (!section.is_table()) continue;
    for (const auto& [key, node] : *section.as_table()) {
      std::ostringstream text;
      if (node.is_string()) {
        text << node.ref<std::string>();
      } else if (node.is_floating_point()) {
        text << fmt::format("{}", node.ref<double>());  // TOML's own way has 17 digits
      } else {
        node.visit([&](const auto& value) { text << value; });
      }
      settings[fmt::format("{}.{}", section_key.str(), key.str())] = text.str();
    }
  }
  return settings;
}

// The directory of a run that was named by itself or by its metrics.jsonl.
fs::path RunDir(const std::string& name) {
  const fs::path path =
      fs::path(name).filename() == kMetricsFile ? fs::path(name).parent_path() : fs::path(name);
  fs::path dir = path.empty() ? fs::path(".") : path;
  std::error_code ignored;
  if (fs::exists(dir / kMetricsFile, ignored)) return dir;
  throw InputError(fmt::format("'{}' holds no run", name),
                   fs::exists(dir, ignored)
                       ? fmt::format("there is no {}", (dir / kMetricsFile).string())
                       : "there is no such directory",
                   "give directories that folio train --out made");
}

// The last `count` names of a path.
std::string Tail(const fs::path& path, size_t count) {
  std::vector<std::string> parts;
  for (const fs::path& part : path) {
    if (!part.empty() && part != path.root_path()) parts.push_back(part.string());
  }
  if (count > parts.size()) return path.string();
  return Join(std::span(parts).last(count), "/");
}

}  // namespace

const std::vector<Metric>& AllMetrics() {
  static const std::vector<Metric> all = {
      {.key = "loss",
       .title = "Training loss",
       .unit = "nats per token",
       .value = &StepMetrics::loss,
       .noisy = true,
       .lower_is_better = true},
      {.key = "val_loss",
       .title = "Held-out loss",
       .unit = "nats per token",
       .value = &StepMetrics::val_loss,
       .evaluated = true,
       .lower_is_better = true},
      {.key = "train_eval_loss",
       .title = "Loss on the training set",
       .unit = "nats per token",
       .value = &StepMetrics::train_eval_loss,
       .evaluated = true,
       .lower_is_better = true},
      {.key = "lr", .title = "Learning rate", .unit = "", .value = &StepMetrics::lr},
      {.key = "grad_norm",
       .title = "Gradient norm",
       .unit = "before clipping",
       .value = &StepMetrics::grad_norm,
       .noisy = true},
      {.key = "tokens_per_second",
       .title = "Speed",
       .unit = "tokens per second",
       .value = &StepMetrics::tokens_per_second,
       .noisy = true},
  };
  return all;
}

std::vector<Metric> MetricsNamed(const std::string& keys) {
  std::vector<std::string> known;
  for (const Metric& metric : AllMetrics()) known.push_back(metric.key);
  std::vector<Metric> chosen;
  for (const std::string& key : Split(keys, ',')) {
    const auto found = std::ranges::find(AllMetrics(), key, &Metric::key);
    if (found == AllMetrics().end()) {
      const std::string nearest = Nearest(key, known);
      throw UsageError(fmt::format("--keys: there is no '{}'", key),
                       "the keys are " + Join(known, ", "),
                       nearest.empty() ? "leave out --keys for the usual ones"
                                       : fmt::format("did you mean {}?", nearest));
    }
    if (std::ranges::find(chosen, key, &Metric::key) == chosen.end()) chosen.push_back(*found);
  }
  return chosen;
}

std::vector<std::string> DistinctNames(std::span<const fs::path> paths) {
  std::vector<fs::path> whole;
  for (const fs::path& path : paths) {
    std::error_code failed;
    const fs::path absolute = fs::weakly_canonical(path, failed);
    whole.push_back(failed ? path : absolute);
  }
  std::vector<size_t> counts(paths.size(), 1);
  for (bool changed = true; changed;) {
    changed = false;
    std::map<std::string, std::vector<size_t>> same;
    for (size_t i = 0; i < whole.size(); ++i) same[Tail(whole[i], counts[i])].push_back(i);
    for (const auto& [name, places] : same) {
      if (places.size() < 2) continue;
      for (const size_t i : places) {
        changed = changed || Tail(whole[i], counts[i] + 1) != name;
        ++counts[i];
      }
    }
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < whole.size(); ++i) names.push_back(Tail(whole[i], counts[i]));
  return names;
}

std::vector<PlottedRun> ReadRuns(std::span<const std::string> runs,
                                 std::span<const std::string> labels, Console& console) {
  if (!labels.empty() && labels.size() != runs.size()) {
    throw UsageError("--label does not fit the runs",
                     fmt::format("runs: {}, labels: {}", runs.size(), labels.size()),
                     "give one for each run, in their order, or none");
  }
  std::vector<PlottedRun> read;
  std::vector<fs::path> dirs;
  std::set<fs::path> seen;
  for (size_t i = 0; i < runs.size(); ++i) {
    const fs::path dir = RunDir(runs[i]);
    std::error_code failed;
    const fs::path canonical = fs::weakly_canonical(dir, failed);
    if (!seen.insert(failed ? dir : canonical).second) {
      console.Note(fmt::format("'{}' is given twice: drawn once", runs[i]));
      continue;
    }
    PlottedRun run{.dir = dir, .label = {}, .log = ReadRunLog(dir), .settings = {}};
    if (!labels.empty()) run.label = labels[i];
    if (run.log.empty()) console.Note(fmt::format("'{}' has no step yet", runs[i]));
    if (fs::exists(dir / kRunConfigFile)) run.settings = ReadSettings(dir / kRunConfigFile);
    dirs.push_back(dir);
    read.push_back(std::move(run));
  }
  if (labels.empty()) {
    const std::vector<std::string> names = DistinctNames(dirs);
    for (size_t i = 0; i < read.size(); ++i) read[i].label = names[i];
  }
  return read;
}

Track TrackOf(const PlottedRun& run, const Metric& metric) {
  Track track;
  double tokens_before = 0;
  for (const StepMetrics& m : run.log) {
    const double tokens = static_cast<double>(m.tokens);
    if (const std::optional<double>& value = m.*metric.value) {
      track.steps.push_back(static_cast<double>(m.step));
      track.tokens.push_back(metric.evaluated ? tokens_before : tokens);
      track.seconds.push_back(m.seconds);
      track.values.push_back(*value);
    }
    tokens_before = tokens;
  }
  return track;
}

std::optional<Extremes> ExtremesOf(const Track& track) {
  if (track.values.empty()) return std::nullopt;
  Extremes extremes{.final = track.values.back(), .final_step = track.steps.back()};
  for (size_t i = 0; i < track.values.size(); ++i) {
    const double value = track.values[i];
    if (!std::isfinite(value) || (extremes.lowest && *extremes.lowest <= value)) continue;
    extremes.lowest = value;
    extremes.lowest_step = track.steps[i];
  }
  return extremes;
}

int64_t StepsOf(const PlottedRun& run) {
  int64_t steps = 0;
  for (const StepMetrics& m : run.log) steps = std::max(steps, m.step + (m.loss ? 1 : 0));
  return steps;
}

std::vector<Difference> DifferencesOf(std::span<const PlottedRun> runs) {
  std::map<std::string, std::set<std::string>> values;
  for (const PlottedRun& run : runs) {
    for (const auto& [key, value] : run.settings) values[key].insert(value);
  }
  std::vector<Difference> differences;
  for (const auto& [key, different] : values) {
    if (different.size() < 2) continue;
    Difference difference{.key = key, .values = {}};
    for (const PlottedRun& run : runs) {
      const auto found = run.settings.find(key);
      difference.values.push_back(found == run.settings.end() ? std::nullopt
                                                              : std::optional(found->second));
    }
    differences.push_back(std::move(difference));
  }
  return differences;
}

}  // namespace folio
