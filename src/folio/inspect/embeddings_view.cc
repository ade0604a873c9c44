#include "folio/inspect/embeddings_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "folio/base/strings.h"
#include "folio/plot/bars.h"
#include "folio/plot/curves.h"
#include "folio/plot/heatmap.h"
#include "folio/plot/scatter.h"
#include "folio/term/table.h"
#include "folio/term/terminal_text.h"
#include "folio/text/unicode.h"
#include "folio/text/utf8.h"

namespace folio {
namespace {

using Json = nlohmann::ordered_json;

// In the order of TokenKind.
constexpr std::array<const char*, 5> kKinds = {"letter", "space and letter", "digit", "punctuation",
                                               "other"};

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::string NormText(const std::vector<double>& norms) {
  return fmt::format("{:.3f} to {:.3f}, median {:.3f}", std::ranges::min(norms),
                     std::ranges::max(norms), Median(norms));
}

std::string NeighbourTable(const EmbeddingsView& view, const TokenNames& names,
                           const Terminal& terminal) {
  std::vector<std::vector<std::string>> rows;
  for (const Neighbour& one : view.token->nearest) {
    const auto id = static_cast<int32_t>(one.row);
    rows.push_back({Heated(terminal, one.cosine, fmt::format("{:.4f}", one.cosine)),
                    fmt::format("{}", id), names.Shown(id),
                    fmt::format("{:.3f}", view.norms[static_cast<size_t>(id)])});
  }
  return fmt::format("nearest to {} (id {})\n", names.Shown(view.token->id), view.token->id) +
         RenderTable({">cosine", ">id", "token", ">norm"}, rows);
}

// Longest and shortest embeddings side by side.
std::string ExtremesTable(const EmbeddingsView& view, const TokenNames& names) {
  const std::vector<size_t> longest = Extremes(view.norms, view.top, true);
  const std::vector<size_t> shortest = Extremes(view.norms, view.top, false);
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < longest.size(); ++i) {
    std::vector<std::string> row;
    for (const size_t id : {longest[i], shortest[i]}) {
      row.push_back(fmt::format("{:.3f}", view.norms[id]));
      row.push_back(fmt::format("{}", id));
      row.push_back(names.Shown(static_cast<int32_t>(id)));
    }
    rows.push_back(std::move(row));
  }
  return RenderTable({">longest", ">id", "token", ">shortest", ">id", "token"}, rows);
}

Json NormsJson(const std::vector<double>& norms) {
  return {{"min", std::ranges::min(norms)},
          {"median", Median(norms)},
          {"max", std::ranges::max(norms)}};
}

}  // namespace

TokenKind KindOf(std::string_view bytes) {
  const bool space = bytes.starts_with(' ');
  if (space) bytes.remove_prefix(1);
  if (bytes.empty() || FindInvalidUtf8(bytes) != std::string_view::npos) return TokenKind::kOther;
  const char32_t code = DecodeUtf8(bytes).code;
  const CharClass c = ClassOf(code);
  if (IsLetter(c)) return space ? TokenKind::kSpaceLetter : TokenKind::kLetter;
  if (c == CharClass::kNumber) return TokenKind::kDigit;
  const bool control = code < 0x20 || code == 0x7F;
  return c == CharClass::kOther && !control ? TokenKind::kPunctuation : TokenKind::kOther;
}

std::string KindName(TokenKind kind) {
  return kKinds[static_cast<size_t>(kind)];
}

std::vector<size_t> Extremes(const std::vector<double>& norms, int64_t count, bool longest) {
  std::vector<size_t> order(norms.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    return longest ? norms[a] > norms[b] : norms[a] < norms[b];
  });
  order.resize(std::min(order.size(), static_cast<size_t>(count)));
  return order;
}

std::string EmbeddingsTerminalText(const EmbeddingsView& view, const TokenNames& names,
                                   const Terminal& terminal) {
  std::string text = fmt::format("tokens      {}, {} channels, norms {}\n", WithCommas(view.V),
                                 WithCommas(view.C), NormText(view.norms));
  text +=
      fmt::format("positions   {}, {}, norms {}\n", WithCommas(view.P),
                  view.learned_positions ? "learned" : "sinusoidal", NormText(view.position_norms));
  text += fmt::format("components  the first two hold {:.1f} % and {:.1f} % of the variance\n\n",
                      100 * view.projection.explained_x, 100 * view.projection.explained_y);
  return text + (view.token ? NeighbourTable(view, names, terminal) : ExtremesTable(view, names));
}

std::string EmbeddingsJson(const EmbeddingsView& view, const TokenNames& names) {
  Json json = {{"schema", 1},
               {"vocab_size", view.V},
               {"n_embd", view.C},
               {"n_positions", view.P},
               {"position_embedding", view.learned_positions ? "learned" : "sinusoidal"},
               {"norms", NormsJson(view.norms)},
               {"position_norms", NormsJson(view.position_norms)}};
  if (view.token) {
    json["token"] = Json::parse(names.Json(view.token->id));
    json["nearest"] = Json::array();
    for (const Neighbour& one : view.token->nearest) {
      Json entry = Json::parse(names.Json(static_cast<int32_t>(one.row)));
      entry["cosine"] = one.cosine;
      entry["norm"] = view.norms[static_cast<size_t>(one.row)];
      json["nearest"].push_back(std::move(entry));
    }
  }
  for (const bool longest : {true, false}) {
    Json& list = json[longest ? "longest" : "shortest"] = Json::array();
    for (const size_t id : Extremes(view.norms, view.top, longest)) {
      Json entry = Json::parse(names.Json(static_cast<int32_t>(id)));
      entry["norm"] = view.norms[id];
      list.push_back(std::move(entry));
    }
  }
  Json points = Json::array();
  for (size_t i = 0; i < view.drawn.size(); ++i) {
    const auto id = static_cast<int32_t>(view.drawn[i]);
    Json entry = Json::parse(names.Json(id));
    entry["kind"] = KindName(KindOf(names.Bytes(id)));
    entry["x"] = view.projection.x[i];
    entry["y"] = view.projection.y[i];
    points.push_back(std::move(entry));
  }
  json["projection"] = {{"explained", {view.projection.explained_x, view.projection.explained_y}},
                        {"points", std::move(points)}};
  return json.dump() + "\n";
}

std::string ProjectionSvg(const EmbeddingsView& view, const TokenNames& names) {
  std::vector<ScatterPoint> points;
  for (size_t i = 0; i < view.drawn.size(); ++i) {
    const auto id = static_cast<int32_t>(view.drawn[i]);
    points.push_back({.x = view.projection.x[i],
                      .y = view.projection.y[i],
                      .label = names.Shown(id),
                      .colour = static_cast<int>(KindOf(names.Bytes(id)))});
  }
  ScatterOptions options;
  options.title = "Token embeddings";
  options.groups.assign(kKinds.begin(), kKinds.end());
  options.x_label =
      fmt::format("first component, {:.1f} % of the variance", 100 * view.projection.explained_x);
  options.y_label = fmt::format("second component, {:.1f} %", 100 * view.projection.explained_y);
  return ScatterSvg(points, options);
}

std::string NormsSvg(const EmbeddingsView& view) {
  const auto series = [](const std::string& label, const std::vector<double>& norms) {
    Series one;
    one.label = label;
    one.y = norms;
    one.x.resize(norms.size());
    std::iota(one.x.begin(), one.x.end(), 0.0);
    return one;
  };
  const Series both[] = {series("tokens, by id", view.norms),
                         series("positions", view.position_norms)};
  CurvesOptions options;
  options.title = "Lengths of the embeddings";
  options.x_label = "row of the table";
  options.y_label = "L2 norm";
  return CurvesSvg(both, options);
}

std::string NeighboursSvg(const TokenNeighbours& token, const TokenNames& names) {
  std::vector<Bar> bars;
  for (const Neighbour& one : token.nearest) {
    bars.push_back({.label = names.Shown(static_cast<int32_t>(one.row)),
                    .value = one.cosine,
                    .note = fmt::format("{:.3f}", one.cosine)});
  }
  BarsOptions options;
  options.title = fmt::format("Nearest to {} by cosine", names.Shown(token.id));
  options.full = 1;
  return BarsSvg(bars, options);
}

std::string PositionsSvg(std::vector<float> similarity, int64_t P) {
  Heatmap map;
  map.title = "Similarity of the position embeddings";
  map.caption = "cosine of each pair";
  map.rows = map.columns = P;
  map.values = std::move(similarity);
  map.row_axis = map.column_axis = "position";
  for (int64_t p = 0; p < P; ++p) map.row_labels.push_back(fmt::format("{}", p));
  map.column_labels = map.row_labels;
  HeatmapOptions options;
  options.scale = HeatScale::kLinear;
  options.full = 1.0;
  options.numbers = false;
  return HeatmapSvg(map, options);
}

}  // namespace folio
