// What `folio inspect attention` writes to a terminal.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "folio/inspect/attention.h"
#include "folio/inspect/figures.h"
#include "folio/plot/colour.h"
#include "folio/term/table.h"
#include "folio/term/terminal_text.h"

namespace folio {
namespace {

constexpr int kNumberWidth = 4;  // " .83"
constexpr int kLongestLabel = 12;

// ".83", "1.0"
std::string ShortShare(double value) {
  if (!std::isfinite(value)) return "nan";
  const std::string text = fmt::format("{:.2f}", value);
  return text.starts_with("0.") ? text.substr(1) : text.substr(0, 3);
}

std::string ScoreTable(const AttentionText& text, std::span<const size_t> order,
                       const Terminal& terminal) {
  std::vector<std::string> columns = {">layer", ">head"};
  for (const std::string& name : ScoreNames()) columns.push_back(">" + name);
  std::vector<std::vector<std::string>> rows;
  for (const size_t i : order) {
    const AttentionHead& head = text.heads[i];
    std::vector<std::string> row = {fmt::format("{}", head.layer), fmt::format("{}", head.head)};
    for (const std::string& name : ScoreNames()) {
      const double score = ScoreNamed(head.scores, name);
      const bool share = name != "entropy" && name != "distance";
      const std::string number = fmt::format("{:.3f}", score);
      row.push_back(share ? Heated(terminal, score, number) : number);
    }
    rows.push_back(std::move(row));
  }
  return RenderTable(columns, rows);
}

// How a map is laid out in the columns of a terminal.
struct MapLayout {
  Heatmap map;
  int64_t step = 1;   // positions in a cell
  int cell = 0;       // columns of one; kNumberWidth: in numbers
  int label = 0;      // columns of the rows' labels
  int64_t first = 0;  // the key of the first column
};

MapLayout LayOut(const AttentionHead& head, bool first_aside, const Terminal& terminal,
                 std::span<const std::string> tokens) {
  MapLayout layout{.map = head.map, .first = first_aside ? 1 : 0};
  int longest = 1;
  for (const std::string& token : tokens) longest = std::max(longest, DisplayWidth(token));
  const int digits = static_cast<int>(fmt::format("{}", tokens.size() - 1).size());
  layout.label = digits + 1 + std::min(longest, kLongestLabel) + 1;
  const int64_t room = std::max(terminal.width - layout.label - 1, 8);
  for (const int cell : {kNumberWidth, 2, 1}) {
    layout.cell = cell;
    if (layout.map.columns * cell <= room) return layout;
  }
  layout.step = PoolingStep(head.map, room);
  layout.map = Pooled(head.map, layout.step);
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
  const auto digits = fmt::format("{}", tokens.size() - 1).size();
  const std::string number = fmt::format("{:>{}} ", position, digits);
  return Styled(terminal, Style::kDim, number) +
         FitColumns(terminal, tokens[static_cast<size_t>(position)],
                    layout.label - static_cast<int>(digits) - 1);
}

std::string CellText(float value, double heat, int width, const Terminal& terminal) {
  if (width == kNumberWidth) {
    if (std::isnan(value)) return std::string(kNumberWidth, ' ');
    return ' ' + Heated(terminal, heat, ShortShare(static_cast<double>(value)));
  }
  if (std::isnan(value)) return std::string(static_cast<size_t>(width), ' ');
  std::string cell;
  for (int i = 0; i < width; ++i) cell += ShadeSign(terminal, heat);
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
    text += fmt::format("each cell is the largest of {0} x {0}\n", layout.step);
  }
  if (view.first_aside) {
    text += fmt::format("set aside: the first token's {:.1f} %\n", 100 * head.aside);
  }
  return text;
}

}  // namespace

std::string AttentionTerminalText(std::span<const AttentionText> texts, const AttentionView& view,
                                  const TokenNames& names, const Terminal& terminal) {
  const std::vector<size_t> order = SortedHeads(texts, view);
  std::string result;
  for (const AttentionText& text : texts) {
    if (texts.size() > 1) {
      result += (result.empty() ? "" : "\n") + Styled(terminal, Style::kBold, text.text.name) +
                fmt::format(", {} tokens\n", text.text.ids.size());
    }
    result += ScoreTable(text, order, terminal);
    if (!view.head) continue;
    const AttentionHead& head = text.heads[order.front()];
    result +=
        "\nqueries down, keys across\n" + MapText(head, view, names.Shown(text.text.ids), terminal);
  }
  return result;
}

}  // namespace folio
