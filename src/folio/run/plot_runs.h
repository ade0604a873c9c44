#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "folio/report/report.h"
#include "folio/train/run_log.h"

namespace folio {

// A number of metrics.jsonl that can be drawn and compared.
struct Metric {
  std::string key, title, unit;
  std::optional<double> StepMetrics::*value;
  bool evaluated = false;  // at some steps only, before their update; never smoothed
  bool noisy = false;      // gets a mean with --smooth
  bool lower_is_better = false;
};

// The metrics of "loss,val_loss", in that order. Throws a kUsage Error that names the nearest key.
std::vector<Metric> MetricsNamed(const std::string& keys);

// A run as far as it has come.
struct PlottedRun {
  std::filesystem::path dir;
  std::string label;
  std::vector<StepMetrics> log;
  std::map<std::string, std::string> settings;  // of config.toml, "train.seed"; empty without one
};

// All keys of RUN/config.toml, "train.seed", with their values as TOML writes them; none where
// there is no such file. Whatever folio wrote it, so nothing is checked but that it is TOML: a
// kInput Error.
std::map<std::string, std::string> SettingsOfRun(const std::filesystem::path& run);

// Reads the runs, a directory that is given twice once. `note` is called with a sentence about such
// a directory, and about a run without steps. `labels` is empty or has one for each of `runs`.
// Throws a kUsage Error otherwise and a kInput Error where there is no run.
std::vector<PlottedRun> ReadRuns(std::span<const std::string> runs,
                                 std::span<const std::string> labels,
                                 const std::function<void(const std::string&)>& note);

// As many of the last names of each path as tell it from the others.
std::vector<std::string> DistinctNames(std::span<const std::filesystem::path> paths);

struct PlotOptions {
  std::string axis = "step";  // step | tokens | time
  double smooth = 0;          // weight of the past, in [0,1)
  bool log_x = false, log_y = false;
  bool titled = true;        // false where the figure stands below a title
  bool differences = false;  // --diff
  bool series = false;
};

// A panel for each metric that any run has, or if there is none for each metric.
std::string RunsSvg(std::span<const PlottedRun> runs, std::span<const Metric> metrics,
                    const PlotOptions& options);

// The figure, the final and lowest values, which are turned on a terminal that is too narrow for
// them, and the settings that differ: for people in a terminal with `differences` only. JSON has
// every value of the metrics with `series`. The runs and the metrics must outlive it.
Report RunsReport(std::span<const PlottedRun> runs, std::span<const Metric> metrics,
                  const PlotOptions& options);

}  // namespace folio
