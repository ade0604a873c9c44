#include "folio/run/plot_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "folio/base/strings.h"
#include "folio/plot/curves.h"
#include "folio/plot/html.h"
#include "folio/plot/smooth.h"
#include "folio/term/table.h"

namespace folio {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kNothing[] = "-";

// What stands below the figure, and how values become places on it.
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
  if (longest > 2 * 3600) return {&Track::seconds, "hours of training", 3600};
  if (longest > 3 * 60) return {&Track::seconds, "minutes of training", 60};
  return {&Track::seconds, "seconds of training"};
}

// The raw values, behind their mean if there is one.
void AddTrack(const Track& track, const XAxis& axis, const std::string& label, int colour,
              double smooth, std::vector<Series>& series) {
  Series raw{.label = label, .x = track.*axis.values, .y = track.values, .colour = colour};
  for (double& x : raw.x) x /= axis.unit;
  if (smooth > 0) {
    Series mean = raw;
    mean.y = Smooth(raw.y, smooth);
    raw.faint = true;
    raw.label.clear();
    series.push_back(std::move(raw));
    series.push_back(std::move(mean));
  } else {
    series.push_back(std::move(raw));
  }
}

std::string ValueText(const Metric& metric, double value) {
  if (metric.key == "lr") return fmt::format("{:.3g}", value);
  if (metric.key == "tokens_per_second") return HumanCount(value);
  return fmt::format("{:.4f}", value);
}

struct Table {
  std::vector<std::string> columns;  // as RenderTable takes them
  std::vector<std::vector<std::string>> rows;
};

Table ValuesTable(std::span<const PlottedRun> runs, std::span<const Metric> metrics) {
  Table table{{"run", ">steps", ">tokens", ">time"}, {}};
  for (const Metric& metric : metrics) {
    table.columns.push_back(">" + metric.key);
    if (metric.lower_is_better) table.columns.insert(table.columns.end(), {">lowest", ">at step"});
  }
  for (const PlottedRun& run : runs) {
    const bool begun = !run.log.empty();
    std::vector<std::string> row = {run.label, fmt::format("{}", StepsOf(run)),
                                    begun ? WithCommas(run.log.back().tokens) : kNothing,
                                    begun ? HumanSeconds(run.log.back().seconds) : kNothing};
    for (const Metric& metric : metrics) {
      const std::optional<Extremes> found = ExtremesOf(TrackOf(run, metric));
      row.push_back(found ? ValueText(metric, found->final) : kNothing);
      if (!metric.lower_is_better) continue;
      const bool lowest = found && found->lowest;
      row.push_back(lowest ? ValueText(metric, *found->lowest) : kNothing);
      row.push_back(lowest ? fmt::format("{:.0f}", found->lowest_step) : kNothing);
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

// The shorter side across: of many runs a row for each.
Table DifferencesTable(std::span<const PlottedRun> runs) {
  const std::vector<Difference> differences = DifferencesOf(runs);
  if (!differences.empty() && runs.size() > differences.size()) {
    Table table{{"run"}, {}};
    for (const PlottedRun& run : runs) table.rows.push_back({run.label});
    for (const Difference& difference : differences) {
      table.columns.push_back(difference.key);
      for (size_t i = 0; i < runs.size(); ++i) {
        table.rows[i].push_back(difference.values[i].value_or(kNothing));
      }
    }
    return table;
  }
  Table table{{"setting"}, {}};
  for (const PlottedRun& run : runs) table.columns.push_back(run.label);
  for (const Difference& difference : differences) {
    std::vector<std::string> row = {difference.key};
    for (const auto& value : difference.values) row.push_back(value.value_or(kNothing));
    table.rows.push_back(std::move(row));
  }
  return table;
}

// Why there may be no table of differences.
std::string NoDifferences(std::span<const PlottedRun> runs) {
  const auto without =
      std::ranges::count_if(runs, [](const auto& r) { return r.settings.empty(); });
  if (runs.size() < 2) return "There is one run only.";
  if (std::cmp_greater_equal(without + 1, runs.size())) {
    return "Fewer than two runs have a config.toml.";
  }
  return "The runs have the same settings.";
}

std::string HtmlTable(const Table& table) {
  std::vector<const char*> classes;
  std::string html = "<table><thead><tr>";
  for (const std::string& column : table.columns) {
    const bool number = &column != table.columns.data() && column.starts_with('>');
    classes.push_back(number ? " class=\"number\"" : "");
    html += fmt::format("<th scope=\"col\"{}>{}</th>", classes.back(),
                        HtmlEscape(column.substr(number ? 1 : 0)));
  }
  html += "</tr></thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : table.rows) {
    html += fmt::format("<tr><th scope=\"row\">{}</th>", HtmlEscape(row[0]));
    for (size_t c = 1; c < row.size(); ++c) {
      html += fmt::format("<td{}>{}</td>", classes[c], HtmlEscape(row[c]));
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table>\n";
}

// JSON has no NaN and no infinity: as metrics.jsonl writes them.
Json Number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

Json Numbers(std::span<const double> values) {
  Json numbers = Json::array();
  for (const double value : values) numbers.push_back(Number(value));
  return numbers;
}

Json RunAsJson(const PlottedRun& run, std::span<const Metric> metrics, bool series) {
  Json json = {{"run", run.dir.string()}, {"label", run.label}, {"steps", StepsOf(run)}};
  json["tokens"] = run.log.empty() ? 0 : run.log.back().tokens;
  json["seconds"] = run.log.empty() ? 0 : run.log.back().seconds;
  json["metrics"] = Json::object();
  for (const Metric& metric : metrics) {
    const Track track = TrackOf(run, metric);
    const std::optional<Extremes> found = ExtremesOf(track);
    if (!found) continue;
    Json& values = json["metrics"][metric.key];
    values["final"] = Number(found->final);
    values["final_step"] = static_cast<int64_t>(found->final_step);
    if (metric.lower_is_better && found->lowest) {
      values["best"] = *found->lowest;
      values["best_step"] = static_cast<int64_t>(found->lowest_step);
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
      AddTrack(track, axis, runs[i].label, static_cast<int>(i), metric.noisy ? options.smooth : 0,
               panel.series);
    }
    (any ? panels : empty).push_back(std::move(panel));
  }
  PanelsOptions figure{.title =
                           runs.size() == 1 ? "Training of " + runs[0].label : "Training runs"};
  if (options.smooth > 0) {
    figure.note = fmt::format(
        "Faint: every step. Strong: exponential mean with weight {:g}, corrected for its start.",
        options.smooth);
  }
  const std::vector<Panel>& shown = panels.empty() ? empty : panels;
  if (shown.size() == 1) figure.panel_width = 800, figure.panel_height = 420;
  return PanelsSvg(shown, figure);
}

std::string RunsHtml(std::span<const PlottedRun> runs, std::span<const Metric> metrics,
                     const PlotOptions& options) {
  HtmlPage page(runs.size() == 1 ? "Training of " + runs[0].label : "Training runs");
  page.Heading(1, "Training runs");
  page.Figure(RunsSvg(runs, metrics, options));
  page.Heading(2, "Values");
  page.Paragraph("The last value of each run, as it was measured, and the lowest loss.");
  page.Html(HtmlTable(ValuesTable(runs, metrics)));
  page.Heading(2, "Settings that differ");
  const Table differences = DifferencesTable(runs);
  if (differences.rows.empty()) {
    page.Paragraph(NoDifferences(runs));
  } else {
    page.Html(HtmlTable(differences));
  }
  return std::move(page).Finish();
}

std::string RunsText(std::span<const PlottedRun> runs, std::span<const Metric> metrics) {
  const Table table = ValuesTable(runs, metrics);
  return RenderTable(table.columns, table.rows);
}

std::string DifferencesText(std::span<const PlottedRun> runs) {
  const Table table = DifferencesTable(runs);
  if (table.rows.empty()) return NoDifferences(runs) + "\n";
  return RenderTable(table.columns, table.rows);
}

std::string RunsJson(std::span<const PlottedRun> runs, std::span<const Metric> metrics,
                     bool series) {
  Json json = {{"schema", 1}, {"runs", Json::array()}, {"differences", Json::array()}};
  for (const PlottedRun& run : runs) json["runs"].push_back(RunAsJson(run, metrics, series));
  for (const Difference& difference : DifferencesOf(runs)) {
    Json values = Json::array();
    for (const auto& value : difference.values) values.push_back(value ? Json(*value) : Json());
    json["differences"].push_back({{"key", difference.key}, {"values", values}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace folio
