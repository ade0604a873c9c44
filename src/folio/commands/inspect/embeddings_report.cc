#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/strings.h"
#include "folio/commands/inspect/inspect_reports.h"
#include "folio/io/json.h"
#include "folio/plot/curves.h"
#include "folio/plot/heatmap.h"

namespace folio {
namespace {

// In the order of TokenKind.
constexpr std::array<const char*, 5> kKinds = {"letter", "space and letter", "digit", "punctuation",
                                               "other"};

// Returns the median; where the number of values is even, the upper of the two in the middle.
double UpperMedian(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// The rows' indices, the longest first or the shortest first; `count` of them.
std::vector<size_t> Extremes(const std::vector<double>& norms, int64_t count, bool longest) {
  std::vector<size_t> order(norms.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    return longest ? norms[a] > norms[b] : norms[a] < norms[b];
  });
  order.resize(std::min(order.size(), static_cast<size_t>(count)));
  return order;
}

std::vector<Cell> RowOf(const EmbeddingsView& view, int64_t row, const TokenNames& names) {
  const auto id = static_cast<int32_t>(row);
  std::vector<Cell> cells = TokenCells(names, id);
  cells.push_back({"", ">id", id});
  cells.push_back({"", "token", names.Shown(id)});
  cells.push_back({"norm", ">norm", Value::Fixed(view.norms[static_cast<size_t>(row)], 3)});
  return cells;
}

ReportTable ExtremesTable(const EmbeddingsView& view, const TokenNames& names, bool longest) {
  ReportTable table{.key = longest ? "longest" : "shortest"};
  for (const size_t row : Extremes(view.norms, view.top, longest)) {
    table.rows.push_back(RowOf(view, static_cast<int64_t>(row), names));
  }
  return table;
}

ReportTable NeighbourTable(const EmbeddingsView& view, const TokenNames& names) {
  ReportTable table{.key = "nearest"};
  for (const Neighbour& one : view.token->nearest) {
    std::vector<Cell> row = RowOf(view, one.row, names);
    row.insert(row.begin(), {"cosine", ">cosine", Value::Fixed(one.cosine, 4).Heat(one.cosine)});
    table.rows.push_back(std::move(row));
  }
  return table;
}

Value NormsOf(const std::vector<double>& norms) {
  const double min = std::ranges::min(norms), max = std::ranges::max(norms);
  const double median = UpperMedian(norms);
  return {fmt::format("norms {:.3f} to {:.3f}, median {:.3f}", min, max, median),
          {{"min", min}, {"median", median}, {"max", max}}};
}

Json ProjectionJson(const EmbeddingsView& view, const TokenNames& names) {
  Json points = Json::array();
  for (const int32_t id : view.drawn) {
    Json entry = names.AsJson(id);
    entry["kind"] = kKinds[static_cast<size_t>(KindOf(names.Bytes(id)))];
    entry["x"] = view.projection.along[0][static_cast<size_t>(id)];
    entry["y"] = view.projection.along[1][static_cast<size_t>(id)];
    points.push_back(std::move(entry));
  }
  return {{"explained", view.projection.explained}, {"points", std::move(points)}};
}

std::string ProjectionSvg(const EmbeddingsView& view, const TokenNames& names) {
  const std::vector<double>&x = view.projection.along[0], &y = view.projection.along[1];
  std::vector<ScatterPoint> points, cloud;
  for (const int32_t id : view.drawn) {
    points.push_back({.x = x[static_cast<size_t>(id)],
                      .y = y[static_cast<size_t>(id)],
                      .label = names.Shown(id),
                      .colour = static_cast<int>(KindOf(names.Bytes(id)))});
  }
  std::string title = "Token embeddings";
  if (points.size() < x.size()) {
    for (size_t i = 0; i < x.size(); ++i) cloud.push_back({.x = x[i], .y = y[i]});
    title +=
        fmt::format(": {} of {}, and the density of all", points.size(), WithCommas(std::ssize(x)));
  }
  const std::vector<double>& explained = view.projection.explained;
  return ScatterSvg(
      points,
      {.title = title,
       .x_label = fmt::format("first component, {:.1f} % of the variance", 100 * explained[0]),
       .y_label = fmt::format("second component, {:.1f} %", 100 * explained[1]),
       .groups = {kKinds.begin(), kKinds.end()},
       .cloud = cloud});
}

std::string NormsSvg(const EmbeddingsView& view) {
  const auto series = [](const std::string& label, const std::vector<double>& norms) {
    Series one{.label = label, .x = std::vector<double>(norms.size()), .y = norms};
    std::iota(one.x.begin(), one.x.end(), 0.0);
    return one;
  };
  std::vector<Series> both = {series("tokens, by id", view.norms)};
  if (!view.position_norms.empty()) both.push_back(series("positions", view.position_norms));
  return CurvesSvg(
      both,
      {.title = "Norms of the embeddings", .x_label = "row of the table", .y_label = "L2 norm"});
}

std::string NeighboursSvg(const TokenNeighbours& token, const TokenNames& names) {
  std::vector<Bar> bars;
  for (const Neighbour& one : token.nearest) {
    bars.push_back({.label = names.Shown(static_cast<int32_t>(one.row)),
                    .value = one.cosine,
                    .note = fmt::format("{:.3f}", one.cosine)});
  }
  return BarsSvg(
      bars, {.title = fmt::format("Nearest to {} by cosine", names.Shown(token.id)), .full = 1});
}

std::string PositionsSvg(const GptWeights& weights) {
  const int64_t P = weights.config().n_positions;
  std::vector<float> positions = PositionTable(weights);
  std::vector<std::string> labels;
  for (int64_t p = 0; p < P; ++p) labels.push_back(fmt::format("{}", p));
  const Heatmap map{
      .title = "Similarity of the position embeddings",
      .caption = "cosine of each pair",
      .rows = P,
      .columns = P,
      .values = CosineSimilarity(Tensor(positions.data(), {P, weights.config().n_embd}), P),
      .row_labels = labels,
      .column_labels = labels,
      .row_axis = "position",
      .column_axis = "position"};
  return HeatmapSvg(map, {.scale = HeatScale::kLinear, .full = 1.0, .numbers = false});
}

}  // namespace

Report EmbeddingsReport(const EmbeddingsView& view, const GptWeights& weights,
                        const TokenNames& names) {
  const GptConfig& config = weights.config();
  const std::vector<double>& explained = view.projection.explained;
  const bool added = AddsPositions(config);
  const Value norms = NormsOf(view.norms);
  const Value position_norms =
      added ? NormsOf(view.position_norms) : Value("added to no token", Json());
  const std::string positions(NameOf(config.position_embedding));
  Report report{.title = "Embeddings",
                .data = {{"vocab_size", config.vocab_size},
                         {"n_embd", config.n_embd},
                         {"n_positions", config.n_positions},
                         {"position_embedding", positions},
                         {"norms", norms.json},
                         {"position_norms", position_norms.json},
                         {"projection", ProjectionJson(view, names)}}};
  report.parts.push_back(
      {.facts = {{"", "tokens",
                  fmt::format("{}, {} channels, {}", WithCommas(config.vocab_size),
                              WithCommas(config.n_embd), norms.text)},
                 {"", "positions",
                  fmt::format("{}, {}, {}", WithCommas(config.n_positions), positions,
                              position_norms.text)},
                 {"", "components",
                  fmt::format("the first two explain {:.1f} % and {:.1f} % of the variance",
                              100 * explained[0], 100 * explained[1])}}});
  if (view.token) {
    const int32_t id = view.token->id;
    report.data["token"] = names.AsJson(id);
    report.parts.push_back({.heading = fmt::format("nearest to {} (id {})", names.Shown(id), id),
                            .drawing_name = "neighbours",
                            .drawing = [&view, names] { return NeighboursSvg(*view.token, names); },
                            .table = NeighbourTable(view, names)});
  }
  for (const bool longest : {true, false}) {
    ReportTable table = ExtremesTable(view, names, longest);
    if (view.token) {
      report.data[table.key] = AsJson(table.rows);
    } else {
      const std::string heading = table.key + " tokens";
      report.parts.push_back({.heading = heading, .table = std::move(table)});
    }
  }
  report.parts.push_back({.heading = "Tokens", .drawing_name = "tokens", .drawing = [&view, names] {
                            return ProjectionSvg(view, names);
                          }});
  if (added) {
    report.parts.push_back({.heading = "Positions",
                            .drawing_name = "positions",
                            .drawing = [&weights] { return PositionsSvg(weights); }});
  }
  report.parts.push_back({.heading = "Lengths", .drawing_name = "norms", .drawing = [&view] {
                            return NormsSvg(view);
                          }});
  return report;
}

}  // namespace folio
