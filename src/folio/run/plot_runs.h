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

struct MetricTraits {
  bool evaluated = false;  // measured at some steps only, before their update
  bool noisy = false;      // drawn with its mean by --smooth
  bool lower_is_better = false;
};

// A number of metrics.jsonl that can be drawn and compared.
struct Metric {
  std::string key, title, unit;
  std::optional<double> StepMetrics::*value;
  MetricTraits traits = {};
};

// The metrics of "loss,val_loss", in that order. Throws a kUsage Error that names the nearest key.
std::vector<Metric> MetricsNamed(const std::string& keys);

// A run, which may not have ended.
struct PlottedRun {
  std::filesystem::path dir;
  std::string label;
  std::vector<StepMetrics> log;
  std::map<std::string, std::string> settings;  // of config.toml, "train.seed"; empty without one
};

// All keys of RUN/config.toml, such as "train.seed", with their values as TOML writes them; none if
// there is no such file, which any version of folio may have written. Throws a kInput Error if it
// is not TOML.
std::map<std::string, std::string> SettingsOfRun(const std::filesystem::path& run);

// Reads the runs, each directory once. Calls `note` with a sentence about a directory that is given
// twice, and about a run without steps. Throws a kUsage Error unless `labels` is empty or has one
// for each of `runs`, and a kInput Error where there is no run.
std::vector<PlottedRun> ReadRuns(std::span<const std::string> runs,
                                 std::span<const std::string> labels,
                                 const std::function<void(const std::string&)>& note);

// The last names of each path, as many as distinguish it from the others.
std::vector<std::string> DistinctNames(std::span<const std::filesystem::path> paths);

struct PlotOptions {
  std::string axis = "step";  // step | tokens | time
  double smooth = 0;          // weight of the past, in [0,1)
  bool log_x = false, log_y = false;
  bool titled = true;        // false where the figure stands below a title
  bool differences = false;  // --diff
  bool series = false;
};

// A panel for each metric that any run has, or for all metrics if there is none.
std::string RunsSvg(std::span<const PlottedRun> runs, std::span<const Metric> metrics,
                    const PlotOptions& options);

// The figure, the final and lowest values (with rows and columns exchanged on a terminal that is
// too narrow), and the settings that differ, which terminals show only with `differences`. JSON has
// every value of the metrics with `series`. The runs and the metrics must outlive it.
Report RunsReport(std::span<const PlottedRun> runs, std::span<const Metric> metrics,
                  const PlotOptions& options);

}  // namespace folio
