#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/check.h"
#include "folio/commands/inspect/inspect_reports.h"
#include "folio/inspect/trace.h"
#include "folio/io/json.h"
#include "folio/term/terminal_text.h"

namespace folio {
namespace {

// Rows of a map among many; more cells than that are not seen.
constexpr int64_t kSmallMap = 96;
// A head whose largest score is below does nothing that has a name here.
constexpr double kTellingShare = 0.3;

double ScoreNamed(const HeadScores& scores, const std::string& name) {
  for (const NamedScore& score : kHeadScores) {
    if (name == score.name) return scores.*score.score;
  }
  FOLIO_CHECK(false, "a score has a name");
  return 0;
}

bool Chosen(const AttentionView& view, int64_t layer, int64_t head) {
  return layer == view.layer.value_or(layer) && head == view.head.value_or(head);
}

// Indices of the view's heads in AttentionText::heads: by layer and head, or those with the largest
// mean score over the texts first.
std::vector<size_t> SortedHeads(std::span<const AttentionText> texts, const AttentionView& view) {
  const std::vector<AttentionHead>& heads = texts.front().heads;
  std::vector<size_t> order;
  for (size_t i = 0; i < heads.size(); ++i) {
    if (Chosen(view, heads[i].layer, heads[i].head)) order.push_back(i);
  }
  if (view.sort == "layer") return order;
  std::vector<double> sums(heads.size());
  for (const AttentionText& text : texts) {
    for (const size_t i : order) {
      const double score = ScoreNamed(text.heads[i].scores, view.sort);
      sums[i] += std::isfinite(score) ? score : std::numeric_limits<double>::lowest();
    }
  }
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return sums[a] > sums[b]; });
  return order;
}

// Keeps (T,T) weights as the head's map, without the keys that a query cannot see.
void KeepMap(const std::vector<float>& weights, int64_t T, bool causal, const AttentionView& view,
             AttentionHead& head) {
  Heatmap map{
      .rows = T, .columns = T, .values = weights, .row_axis = "query", .column_axis = "key"};
  for (int64_t query = 0; causal && query < T; ++query) {
    const auto row = map.values.begin() + query * T;
    std::fill(row + query + 1, row + T, std::numeric_limits<float>::quiet_NaN());
  }
  if (view.first_aside) map = WithoutFirstColumn(map, &head.aside);
  head.step = view.head ? 1 : PoolingStep(T, kSmallMap);
  head.map = Pooled(map, head.step, head.step);
}

constexpr int64_t kNumberWidth = 4;  // " .83"
constexpr int64_t kLongestLabel = 12;

// ".83", "1.0"
std::string ShortShare(double value) {
  if (!std::isfinite(value)) return "nan";
  const std::string text = fmt::format("{:.2f}", value);
  return text.starts_with("0.") ? text.substr(1) : text.substr(0, 3);
}

ReportTable ScoreTable(const AttentionText& text, std::span<const size_t> order) {
  ReportTable table;
  for (const size_t i : order) {
    const AttentionHead& head = text.heads[i];
    std::vector<Cell> row = {{"layer", ">layer", head.layer}, {"head", ">head", head.head}};
    for (const NamedScore& score : kHeadScores) {
      const std::string name = score.name;
      const double value = head.scores.*score.score;
      const bool share = name != "entropy" && name != "distance";
      row.push_back({name, ">" + name, Value::Fixed(value, 3)});
      if (share) row.back().value.heat = value;
    }
    if (!head.weights.empty()) {
      const int64_t T = std::ssize(text.text.ids);
      row.push_back({"weights", "",
                     MatrixJson(MakeMatrix({T, T}, {head.weights.begin(), head.weights.end()}))});
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

// MapLayout says how a map lies in the columns of a terminal.
struct MapLayout {
  Heatmap map;
  int64_t step = 1;   // positions in a cell
  int64_t cell = 0;   // columns of one; kNumberWidth: in numbers
  int64_t label = 0;  // columns of the rows' labels
  int64_t first = 0;  // the key of the first column
};

MapLayout LayOut(const AttentionHead& head, bool first_aside, const Terminal& terminal,
                 std::span<const std::string> tokens) {
  MapLayout layout{.map = head.map, .first = first_aside ? 1 : 0};
  int64_t longest = 1;
  for (const std::string& token : tokens) longest = std::max(longest, DisplayWidth(token));
  const auto digits = std::ssize(fmt::format("{}", tokens.size() - 1));
  layout.label = digits + 1 + std::min(longest, kLongestLabel) + 1;
  const int64_t room = std::max<int64_t>(terminal.width - layout.label - 1, 8);
  for (const int64_t cell : {kNumberWidth, int64_t{2}, int64_t{1}}) {
    layout.cell = cell;
    if (layout.map.columns * cell <= room) return layout;
  }
  layout.step = PoolingStep(head.map.rows, room);
  layout.map = Pooled(head.map, layout.step, layout.step);
  return layout;
}

std::string Header(const MapLayout& layout, std::span<const std::string> tokens,
                   const Terminal& terminal) {
  std::string line(static_cast<size_t>(layout.label), ' ');
  if (layout.cell == kNumberWidth) {
    for (int64_t key = 0; key < layout.map.columns; ++key) {
      line += ' ' + FitColumns(terminal, tokens[static_cast<size_t>(key + layout.first)],
                               kNumberWidth - 1);
    }
  } else {
    constexpr int64_t kEvery = 10;
    for (int64_t column = 0; column < layout.map.columns; ++column) {
      const std::string number = fmt::format("{}", column * layout.step + layout.first);
      const auto at = static_cast<size_t>(layout.label + column * layout.cell);
      if (column % kEvery == 0 && line.size() <= at) {
        line.resize(at, ' ');
        line += number;
      }
    }
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return Styled(terminal, Style::kDim, line) + "\n";
}

std::string RowLabel(const MapLayout& layout, int64_t row, std::span<const std::string> tokens,
                     const Terminal& terminal) {
  const int64_t position = row * layout.step;
  const auto digits = std::ssize(fmt::format("{}", tokens.size() - 1));
  const std::string number = fmt::format("{:>{}} ", position, digits);
  return Styled(terminal, Style::kDim, number) +
         FitColumns(terminal, tokens[static_cast<size_t>(position)], layout.label - digits - 1);
}

std::string CellText(float value, double heat, int64_t width, const Terminal& terminal) {
  if (width == kNumberWidth) {
    if (std::isnan(value)) return std::string(kNumberWidth, ' ');
    return ' ' + Heated(terminal, heat, ShortShare(static_cast<double>(value)));
  }
  if (std::isnan(value)) return std::string(static_cast<size_t>(width), ' ');
  std::string cell;
  for (int64_t i = 0; i < width; ++i) cell += ShadeSign(terminal, heat);
  // Blue that is seen on light and dark terminals; the sign lets as much of it through as it
  // should.
  return terminal.color ? fmt::format("\x1b[38;5;33m{}\x1b[0m", cell) : cell;
}

// The value of full colour: 1 where nothing is above 0.
double Largest(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) {
    if (std::isfinite(value)) largest = std::max(largest, value);
  }
  return largest > 0 ? static_cast<double>(largest) : 1;
}

std::string MapText(const AttentionHead& head, const AttentionView& view,
                    std::span<const std::string> tokens, const Terminal& terminal) {
  const MapLayout layout = LayOut(head, view.first_aside, terminal, tokens);
  const Heatmap& map = layout.map;
  const double largest = Largest(map.values);
  std::string text = Header(layout, tokens, terminal);
  for (int64_t row = 0; row < map.rows; ++row) {
    const auto values =
        std::span(map.values)
            .subspan(static_cast<size_t>(row * map.columns), static_cast<size_t>(map.columns));
    const double full = view.per_row ? Largest(values) : largest;
    std::string line = RowLabel(layout, row, tokens, terminal);
    for (const float value : values) {
      const double heat = Shade(static_cast<double>(value), {view.scale, false, full});
      line += CellText(value, heat, layout.cell, terminal);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  if (layout.step > 1) {
    text += fmt::format("each cell is the maximum of {0} x {0}\n", layout.step);
  }
  if (view.first_aside) {
    text += fmt::format("without the first token, which has {:.1f} %\n", 100 * head.aside);
  }
  return text;
}

HeatmapOptions Options(const AttentionView& view) {
  return {.scale = view.scale, .per_row = view.per_row};
}

// Returns what the head does most, for a small map: the score that it was sorted by, or its largest
// share where that says something, else its entropy.
std::string ShortCaption(const AttentionHead& head, const std::string& sort) {
  std::string name = sort;
  if (sort == "layer") {
    name = "first";
    for (const char* other : {"previous", "self", "duplicate", "induction"}) {
      if (ScoreNamed(head.scores, other) > ScoreNamed(head.scores, name)) name = other;
    }
    if (!(ScoreNamed(head.scores, name) >= kTellingShare)) name = "entropy";
  }
  return fmt::format("{} {:.2f}", name, ScoreNamed(head.scores, name));
}

// The text itself, once for a figure of many maps.
std::string TextNote(const AttentionText& text, const TokenNames& names) {
  std::string whole;
  for (const int32_t id : text.text.ids) whole += names.Bytes(id);
  return whole.empty() ? "" : fmt::format("\xE2\x80\x9C{}\xE2\x80\x9D", whole);
}

constexpr char kMapNote[] =
    "Rows are queries, columns are keys; below each map is its most characteristic score.";

void AddTokens(const AttentionText& text, const AttentionView& view, const TokenNames& names,
               Heatmap* map) {
  map->row_labels = names.Shown(text.text.ids);
  map->column_labels = map->row_labels;
  if (view.first_aside) map->column_labels.erase(map->column_labels.begin());
}

Heatmap SmallMap(const AttentionText& text, const AttentionHead& head, const AttentionView& view,
                 const TokenNames& names) {
  Heatmap map = head.map;
  if (head.step == 1) AddTokens(text, view, names, &map);
  map.title = fmt::format("L{} H{}", head.layer, head.head);
  map.caption = ShortCaption(head, view.sort);
  if (view.first_aside) map.caption += fmt::format(", aside {:.0f} %", 100 * head.aside);
  return map;
}

std::string Sorting(const AttentionView& view) {
  return view.sort == "layer" ? "" : ", largest " + view.sort + " first";
}

std::string OneHeadSvg(const AttentionText& text, const AttentionHead& head,
                       const AttentionView& view, const TokenNames& names) {
  Heatmap map = head.map;
  map.title = fmt::format("Attention of layer {}, head {}", head.layer, head.head);
  for (const std::string& name : ScoreNames()) {
    // Held together by a space that breaks no line.
    map.caption += fmt::format("{}{}\xC2\xA0{:.2f}", map.caption.empty() ? "" : " · ", name,
                               ScoreNamed(head.scores, name));
  }
  if (view.first_aside) {
    map.caption += fmt::format(" · without the first token ({:.0f} %)", 100 * head.aside);
  }
  AddTokens(text, view, names, &map);
  return HeatmapSvg(map, Options(view));
}

std::string TextFigure(const AttentionText& text, const AttentionView& view,
                       const TokenNames& names, int64_t columns) {
  const std::vector<size_t> order = SortedHeads(std::span(&text, 1), view);
  if (view.head) return OneHeadSvg(text, text.heads[order.front()], view, names);
  std::vector<Heatmap> maps;
  for (const size_t i : order) maps.push_back(SmallMap(text, text.heads[i], view, names));
  std::string title = view.layer ? fmt::format("Attention of layer {}", *view.layer)
                                 : "Attention of all heads, one row per layer";
  if (!view.layer && view.sort != "layer") title = "Attention of all heads";
  title += fmt::format(": {} tokens{}", text.text.ids.size(), Sorting(view));
  return HeatmapGridSvg(maps, std::min(columns, static_cast<int64_t>(maps.size())), title,
                        {TextNote(text, names), kMapNote}, Options(view));
}

std::string RowsFigure(std::span<const AttentionText> texts, const AttentionView& view,
                       const TokenNames& names) {
  const std::vector<size_t> order = SortedHeads(texts, view);
  std::vector<Heatmap> maps;
  for (size_t t = 0; t < texts.size(); ++t) {
    for (const size_t i : order) {
      Heatmap map = SmallMap(texts[t], texts[t].heads[i], view, names);
      map.title = fmt::format("text {} H{}", t + 1, texts[t].heads[i].head);
      maps.push_back(std::move(map));
    }
  }
  const std::string title = fmt::format("Attention of layer {}, one row for each of {} texts{}",
                                        view.layer.value_or(0), texts.size(), Sorting(view));
  return HeatmapGridSvg(maps, static_cast<int64_t>(order.size()), title, {kMapNote}, Options(view));
}

}  // namespace

AttentionText InspectHeads(const OpenedModel& model, const ModelText& text,
                           const AttentionView& view, const std::function<void()>& on_head) {
  const GptConfig& config = model.weights->config();
  const Trace trace(*model.backend, *model.weights, text.ids, {TracePoint::kQkv}, text.mask);
  const auto T = static_cast<int64_t>(text.ids.size());
  std::vector<float> weights(static_cast<size_t>(T * T));
  AttentionText seen{.text = text};
  for (int64_t layer = 0; layer < config.n_layer; ++layer) {
    for (int64_t h = 0; h < config.n_head; ++h) {
      trace.HeadWeights(layer, h, weights);
      AttentionHead head{.layer = layer, .head = h, .scores = ScoreHead(weights, text.ids)};
      if (Chosen(view, layer, h)) {
        if (view.maps) KeepMap(weights, T, config.causal, view, head);
        if (view.weights) head.weights = weights;
      }
      seen.heads.push_back(std::move(head));
      on_head();
    }
  }
  return seen;
}

Report AttentionReport(std::span<const AttentionText> texts, const AttentionView& view,
                       const GptConfig& config, const TokenNames& names) {
  Report report{.title = "Attention"};
  report.parts.push_back(
      {.text = "The weight of each key for each query (rows are queries, columns are keys), and "
               "the scores of each head: the entropy of its weights in nats, the mean distance in "
               "tokens from query to key, and the mean weight on the first token, the previous "
               "token, the query itself, earlier occurrences of its token (duplicate) and the "
               "tokens that followed those (induction).",
       .medium = Medium::kPage});
  const bool rows = texts.size() > 1 && view.layer && !view.head;
  if (rows) {
    report.parts.push_back(
        {.drawing_name = "texts", .drawing = [=] { return RowsFigure(texts, view, names); }});
  }
  AttentionView all = view;
  all.layer = all.head = {};
  const std::vector<size_t> order = SortedHeads(texts, view), every = SortedHeads(texts, all);
  Json seen = Json::array();
  for (size_t i = 0; i < texts.size(); ++i) {
    const AttentionText& text = texts[i];
    seen.push_back({{"name", text.text.name},
                    {"left_out", text.text.left_out},
                    {"tokens", names.AsJson(text.text.ids)},
                    {"heads", AsJson(ScoreTable(text, every).rows)}});
    ReportPart part{.table = ScoreTable(text, order)};
    if (texts.size() > 1) {
      part.heading =
          fmt::format("Text {}: {}, {} tokens", i + 1, text.text.name, text.text.ids.size());
    }
    if (!rows) {
      part.drawing_name = fmt::format("text-{}", i + 1);
      part.drawing = [=, &text, columns = config.n_head] {
        return TextFigure(text, view, names, columns);
      };
    }
    if (view.head) {
      part.terminal = [=, &text, head = order.front()](const Terminal& terminal) {
        return "rows: queries, columns: keys\n" +
               MapText(text.heads[head], view, names.Shown(text.text.ids), terminal) + "\n";
      };
    }
    report.parts.push_back(std::move(part));
  }
  report.data = {
      {"n_layer", config.n_layer}, {"n_head", config.n_head}, {"texts", std::move(seen)}};
  return report;
}

}  // namespace folio
