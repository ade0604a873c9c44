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
#include "folio/io/json.h"
#include "folio/io/posix.h"
#include "folio/plot/curves.h"
#include "folio/plot/svg.h"
#include "folio/run/run_directory.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// The directory of a run that was named by itself or by its metrics.jsonl.
fs::path RunDir(const std::string& name) {
  const fs::path path =
      fs::path(name).filename() == kMetricsFile ? fs::path(name).parent_path() : fs::path(name);
  fs::path dir = path.empty() ? fs::path(".") : path;
  std::error_code ignored;
  if (fs::exists(dir / kMetricsFile, ignored)) return dir;
  const fs::path missing = fs::is_directory(dir, ignored) ? dir / kMetricsFile : dir;
  throw InputError(fmt::format("'{}' contains no run", name),
                   fmt::format("{}: {}", missing.string(), internal::WhyNotThere(missing)),
                   "give run directories written by folio train --out");
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

// One metric of one run. `steps` are those of the log; tokens and seconds those at which the value
// was measured; `lowest` is the index of the lowest number among the values.
struct Track {
  std::vector<double> steps, tokens, seconds, values;
  std::optional<size_t> lowest;
};

Track TrackOf(const PlottedRun& run, const Metric& metric) {
  Track track;
  double tokens_before = 0;
  for (const StepMetrics& m : run.log) {
    const double tokens = static_cast<double>(m.tokens);
    if (const std::optional<double>& value = m.*metric.value) {
      track.steps.push_back(static_cast<double>(m.step));
      track.tokens.push_back(metric.traits.evaluated ? tokens_before : tokens);
      track.seconds.push_back(m.seconds);
      track.values.push_back(*value);
      const size_t last = track.values.size() - 1;
      const bool lowest = !track.lowest || *value < track.values[*track.lowest];
      if (std::isfinite(*value) && lowest) track.lowest = last;
    }
    tokens_before = tokens;
  }
  return track;
}

// Updates done.
int64_t StepsOf(const PlottedRun& run) {
  int64_t steps = 0;
  for (const StepMetrics& m : run.log) steps = std::max(steps, m.step + (m.loss ? 1 : 0));
  return steps;
}

// A setting in which runs differ, with its value in each; nothing where a run does not have it.
using RunDifference = std::pair<std::string, std::vector<std::optional<std::string>>>;

std::vector<RunDifference> DifferencesOf(std::span<const PlottedRun> runs) {
  std::map<std::string, std::set<std::string>> values;
  for (const PlottedRun& run : runs) {
    for (const auto& [key, value] : run.settings) values[key].insert(value);
  }
  std::vector<RunDifference> differences;
  for (const auto& [key, different] : values) {
    if (different.size() < 2) continue;
    auto& of_runs = differences.emplace_back(key, runs.size()).second;
    for (size_t i = 0; i < runs.size(); ++i) {
      const auto found = runs[i].settings.find(key);
      if (found != runs[i].settings.end()) of_runs[i] = found->second;
    }
  }
  return differences;
}

const std::vector<Metric>& AllMetrics() {
  constexpr MetricTraits kNoisy = {.noisy = true};
  constexpr MetricTraits kNoisyLoss = {.noisy = true, .lower_is_better = true};
  constexpr MetricTraits kLoss = {.evaluated = true, .lower_is_better = true};
  constexpr const char* kNats = "nats per token";
  static const std::vector<Metric> all = {
      {"loss", "Training loss", kNats, &StepMetrics::loss, kNoisyLoss},
      {"val_loss", "Held-out loss", kNats, &StepMetrics::val_loss, kLoss},
      {"train_eval_loss", "Loss on the training set", kNats, &StepMetrics::train_eval_loss, kLoss},
      {"lr", "Learning rate", "", &StepMetrics::lr},
      {"grad_norm", "Gradient norm", "before clipping", &StepMetrics::grad_norm, kNoisy},
      {"tokens_per_second", "Speed", "tokens per second", &StepMetrics::tokens_per_second, kNoisy},
  };
  return all;
}

constexpr char kNothing[] = "-";

// The axis below the figure, and how values become places on it.
struct XAxis {
  std::vector<double> Track::*values;
  std::string label;
  double unit = 1;
};

XAxis AxisOf(std::span<const PlottedRun> runs, const PlotOptions& options) {
  if (options.axis == "step") return {&Track::steps, "step"};
  if (options.axis == "tokens") return {&Track::tokens, "tokens"};
  double longest = 0;
  for (const PlottedRun& run : runs) {
    if (!run.log.empty()) longest = std::max(longest, run.log.back().seconds);
  }
  if (longest > 2 * 3600) return {&Track::seconds, "training time (hours)", 3600};
  if (longest > 3 * 60) return {&Track::seconds, "training time (minutes)", 60};
  return {&Track::seconds, "training time (seconds)"};
}

std::string ValueText(const Metric& metric, double value) {
  if (metric.key == "lr") return fmt::format("{:.3g}", value);
  if (metric.key == "tokens_per_second") return HumanCount(value);
  return fmt::format("{:.4f}", value);
}

// Final and lowest values, a row for each run.
ReportTable ValuesTable(std::span<const PlottedRun> runs, std::span<const Metric> metrics) {
  ReportTable table{.turns = true};
  for (const PlottedRun& run : runs) {
    const bool begun = !run.log.empty();
    std::vector<Cell>& row = table.rows.emplace_back();
    row = {{"", "run", run.label},
           {"", ">steps", StepsOf(run)},
           {"", ">tokens", begun ? WithCommas(run.log.back().tokens) : kNothing},
           {"", ">time", begun ? HumanSeconds(run.log.back().seconds) : kNothing}};
    for (const Metric& metric : metrics) {
      const Track track = TrackOf(run, metric);
      const bool any = !track.values.empty();
      row.push_back(
          {"", ">" + metric.key, any ? ValueText(metric, track.values.back()) : kNothing});
      if (!metric.traits.lower_is_better) continue;
      const std::optional<size_t> lowest = track.lowest;
      row.push_back({"", ">lowest", lowest ? ValueText(metric, track.values[*lowest]) : kNothing});
      row.push_back(
          {"", ">at step", lowest ? fmt::format("{:.0f}", track.steps[*lowest]) : kNothing});
    }
  }
  return table;
}

// The shorter side across: of many runs a row for each.
ReportTable DifferencesTable(std::span<const PlottedRun> runs,
                             std::span<const RunDifference> differences) {
  ReportTable table;
  const bool of_runs = !differences.empty() && runs.size() > differences.size();
  table.rows.resize(of_runs ? runs.size() : differences.size());
  for (size_t r = 0; r < table.rows.size(); ++r) {
    table.rows[r].push_back(of_runs ? Cell{"", "run", runs[r].label}
                                    : Cell{"", "setting", differences[r].first});
    for (size_t c = 0; c < (of_runs ? differences.size() : runs.size()); ++c) {
      const auto& [key, values] = differences[of_runs ? c : r];
      table.rows[r].push_back(
          {"", of_runs ? key : runs[c].label, values[of_runs ? r : c].value_or(kNothing)});
    }
  }
  return table;
}

std::string TitleOf(std::span<const PlottedRun> runs) {
  return runs.size() == 1 ? "Training of " + runs[0].label : "Training runs";
}

// The reason for which there is no table of differences.
std::string NoDifferences(std::span<const PlottedRun> runs) {
  const auto without =
      std::ranges::count_if(runs, [](const auto& r) { return r.settings.empty(); });
  if (runs.size() < 2) return "There is only one run.";
  if (std::cmp_greater_equal(without + 1, runs.size())) {
    return "Fewer than two runs have a config.toml.";
  }
  return "The runs have the same settings.";
}

Json Numbers(std::span<const double> values) {
  Json numbers = Json::array();
  for (const double value : values) numbers.push_back(MetricJson(value));
  return numbers;
}

Json RunAsJson(const PlottedRun& run, std::span<const Metric> metrics, bool series) {
  Json json = {{"run", run.dir.string()}, {"label", run.label}, {"steps", StepsOf(run)}};
  json["tokens"] = run.log.empty() ? 0 : run.log.back().tokens;
  json["seconds"] = run.log.empty() ? 0 : run.log.back().seconds;
  json["metrics"] = Json::object();
  for (const Metric& metric : metrics) {
    const Track track = TrackOf(run, metric);
    if (track.values.empty()) continue;
    Json& values = json["metrics"][metric.key];
    values["final"] = MetricJson(track.values.back());
    values["final_step"] = static_cast<int64_t>(track.steps.back());
    if (metric.traits.lower_is_better && track.lowest) {
      values["best"] = track.values[*track.lowest];
      values["best_step"] = static_cast<int64_t>(track.steps[*track.lowest]);
    }
    if (!series) continue;
    values["series"] = {{"step", std::vector<int64_t>(track.steps.begin(), track.steps.end())},
                        {"tokens", std::vector<int64_t>(track.tokens.begin(), track.tokens.end())},
                        {"seconds", Numbers(track.seconds)},
                        {"value", Numbers(track.values)}};
  }
  return json;
}

}  // namespace

std::map<std::string, std::string> SettingsOfRun(const fs::path& run) {
  constexpr uint64_t kMaxBytes = 1 << 20;
  const fs::path path = run / kRunConfigFile;
  std::error_code ignored;
  if (fs::status(path, ignored).type() == fs::file_type::not_found) return {};
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

std::vector<Metric> MetricsNamed(const std::string& keys) {
  std::vector<std::string> known;
  for (const Metric& metric : AllMetrics()) known.push_back(metric.key);
  std::vector<Metric> chosen;
  for (const std::string& key : Split(keys, ',')) {
    const auto found = std::ranges::find(AllMetrics(), key, &Metric::key);
    if (found == AllMetrics().end()) {
      const std::string nearest = Nearest(key, known);
      throw UsageError(fmt::format("--keys: there is no '{}'", key),
                       "available keys: " + Join(known, ", "),
                       nearest.empty() ? "remove --keys to use the default"
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
                                 std::span<const std::string> labels,
                                 const std::function<void(const std::string&)>& note) {
  if (!labels.empty() && labels.size() != runs.size()) {
    throw UsageError("--label does not match the runs",
                     fmt::format("runs: {}, labels: {}", runs.size(), labels.size()),
                     "give one label per run, in order, or none");
  }
  std::vector<PlottedRun> read;
  std::vector<fs::path> dirs;
  std::set<fs::path> seen;
  for (size_t i = 0; i < runs.size(); ++i) {
    const fs::path dir = RunDir(runs[i]);
    std::error_code failed;
    const fs::path canonical = fs::weakly_canonical(dir, failed);
    if (!seen.insert(failed ? dir : canonical).second) {
      note(fmt::format("'{}' is given twice; it is drawn once", runs[i]));
      continue;
    }
    PlottedRun run{.dir = dir, .label = {}, .log = ReadRunLog(dir), .settings = SettingsOfRun(dir)};
    if (!labels.empty()) run.label = labels[i];
    if (run.log.empty()) note(fmt::format("'{}' has no steps yet", runs[i]));
    dirs.push_back(dir);
    read.push_back(std::move(run));
  }
  if (labels.empty()) {
    const std::vector<std::string> names = DistinctNames(dirs);
    for (size_t i = 0; i < read.size(); ++i) read[i].label = names[i];
  }
  return read;
}

std::string RunsSvg(std::span<const PlottedRun> runs, std::span<const Metric> metrics,
                    const PlotOptions& options) {
  const XAxis axis = AxisOf(runs, options);
  std::vector<Panel> panels, empty;
  for (const Metric& metric : metrics) {
    Panel panel{{},
                {.title = metric.title,
                 .x_label = axis.label,
                 .y_label = metric.unit,
                 .log_x = options.log_x,
                 .log_y = options.log_y}};
    bool any = false;
    for (size_t i = 0; i < runs.size(); ++i) {
      const Track track = TrackOf(runs[i], metric);
      any = any || !track.values.empty();
      Series series{.label = runs[i].label,
                    .x = track.*axis.values,
                    .y = track.values,
                    .colour = static_cast<int>(i)};
      for (double& x : series.x) x /= axis.unit;
      if (metric.traits.noisy &&
          options.smooth > 0) {  // the raw values, and their mean before them
        Series& raw = panel.series.emplace_back(series);
        raw.faint = true;
        raw.label.clear();
        series.y = Smooth(series.y, options.smooth);
      }
      panel.series.push_back(std::move(series));
    }
    (any ? panels : empty).push_back(std::move(panel));
  }
  PanelsOptions figure{.title = options.titled ? TitleOf(runs) : ""};
  if (options.smooth > 0) {
    figure.note = fmt::format(
        "Faint: every step. Strong: exponential mean with weight {:g}, corrected for its start.",
        options.smooth);
  }
  const std::vector<Panel>& shown = panels.empty() ? empty : panels;
  if (shown.size() == 1) {
    figure.panel_width = 800;
    figure.panel_height = 420;
  }
  return PanelsSvg(shown, figure);
}

Report RunsReport(std::span<const PlottedRun> runs, std::span<const Metric> metrics,
                  const PlotOptions& options) {
  const std::vector<RunDifference> found = DifferencesOf(runs);
  Json values = Json::array(), differences = Json::array();
  for (const PlottedRun& run : runs) values.push_back(RunAsJson(run, metrics, options.series));
  for (const auto& [key, of_runs] : found) {
    Json each = Json::array();
    for (const auto& value : of_runs) each.push_back(value ? Json(*value) : Json());
    differences.push_back({{"key", key}, {"values", each}});
  }
  PlotOptions untitled = options;
  untitled.titled = false;
  ReportPart differ{.heading = "Settings that differ",
                    .text = found.empty() ? NoDifferences(runs) : "",
                    .table = DifferencesTable(runs, found),
                    .medium = Medium::kPage};
  Report report{.title = TitleOf(runs),
                .parts = {{.drawing = [=] { return RunsSvg(runs, metrics, untitled); },
                           .medium = Medium::kPage},
                          {.heading = "Values",
                           .text = "The last measured value of each run, and the lowest loss.",
                           .medium = Medium::kPage},
                          {.table = ValuesTable(runs, metrics)},
                          differ},
                .data = {{"runs", values}, {"differences", differences}}};
  if (options.differences) {
    differ.heading.clear();
    differ.medium = Medium::kTerminal;
    report.parts.push_back(std::move(differ));
  }
  return report;
}

}  // namespace folio
