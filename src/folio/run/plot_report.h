#pragma once

#include <span>
#include <string>
#include <vector>

#include "folio/run/plot_runs.h"

namespace folio {

struct PlotOptions {
  std::string axis = "step";  // step | tokens | time
  double smooth = 0;          // weight of the past, in [0,1)
  bool log_x = false, log_y = false;
};

// A panel for each metric that any run has, or if there is none for each metric.
std::string RunsSvg(std::span<const PlottedRun> runs, std::span<const Metric> metrics,
                    const PlotOptions& options);

// The figure, the final and lowest values, and the settings that differ.
std::string RunsHtml(std::span<const PlottedRun> runs, std::span<const Metric> metrics,
                     const PlotOptions& options);

// Final and lowest values, a row for each run.
std::string RunsText(std::span<const PlottedRun> runs, std::span<const Metric> metrics);
// The settings that differ, a row for each.
std::string DifferencesText(std::span<const PlottedRun> runs);

// One JSON document; with every value of the metrics if `series`.
std::string RunsJson(std::span<const PlottedRun> runs, std::span<const Metric> metrics,
                     bool series);

}  // namespace folio
