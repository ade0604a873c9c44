// What `folio inspect lens` writes to a terminal.
#include <fmt/format.h>

#include <algorithm>

#include "folio/inspect/lens_view.h"
#include "folio/term/table.h"
#include "folio/term/terminal_text.h"

namespace folio {
namespace {

constexpr int kToken = 5, kColumn = kToken + 6;  // "token  83% "
constexpr int kLabel = 12;

std::string Percent(double probability) {
  return fmt::format("{:>3.0f}%", 100 * probability);
}

std::string CellText(const LensCell& cell, const TokenNames& names, const Terminal& terminal) {
  if (cell.top.empty()) return std::string(kColumn, ' ');
  const TokenProbability& best = cell.top.front();
  const std::string token = FitColumns(terminal, names.Shown(best.id), kToken);
  return Heated(terminal, best.probability, token + " " + Percent(best.probability)) + ' ';
}

std::string Row(const std::string& label, const std::vector<std::string>& cells) {
  std::string line = fmt::format("{:<{}}", label, kLabel);
  for (const std::string& cell : cells) line += cell;
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

// The table of positions [begin, end) of the view.
std::string TableOf(const LensView& view, size_t begin, size_t end, const TokenNames& names,
                    const Terminal& terminal) {
  std::vector<std::string> positions, tokens;
  for (size_t i = begin; i < end; ++i) {
    const int64_t position = view.positions[i];
    positions.push_back(fmt::format("{:<{}}", position, kColumn));
    const std::string shown = names.Shown(view.text.ids[static_cast<size_t>(position)]);
    tokens.push_back(FitColumns(terminal, shown, kColumn - 1) + " ");
  }
  std::string text = Styled(terminal, Style::kDim, Row("position", positions));
  text += Row("token", tokens);
  for (int64_t layer = 0; layer < view.layers; ++layer) {
    std::vector<std::string> cells;
    for (size_t i = begin; i < end; ++i) {
      cells.push_back(CellText(view.Cell(i, layer), names, terminal));
    }
    text += Row(LensLayerName(layer), cells);
  }
  std::vector<std::string> next;
  for (size_t i = begin; i < end; ++i) {
    next.push_back(FitColumns(terminal, view.Next(i, names), kColumn - 1) + " ");
  }
  return text + Row("in the text", next);
}

// As many of the likeliest as a line has room for.
std::string Likeliest(const LensCell& cell, const TokenNames& names, const Terminal& terminal) {
  constexpr int kOtherColumns = 43;
  int room = terminal.is_terminal ? terminal.width - kOtherColumns : 1 << 30;
  std::string list;
  for (const TokenProbability& one : cell.top) {
    const std::string next =
        (list.empty() ? "" : "  ") + names.Shown(one.id) + " " +
        Heated(terminal, one.probability, fmt::format("{:.3f}", one.probability));
    room -= DisplayWidth(next);
    if (room < 0) break;
    list += next;
  }
  return list;
}

std::string Detail(const LensView& view, const TokenNames& names, const Terminal& terminal) {
  std::vector<std::vector<std::string>> rows;
  for (int64_t layer = 0; layer < view.layers; ++layer) {
    const LensCell& cell = view.Cell(0, layer);
    rows.push_back({LensLayerName(layer), fmt::format("{:.3f}", cell.kl),
                    fmt::format("{}", cell.final_rank + 1), fmt::format("{:.3f}", cell.entropy),
                    Likeliest(cell, names, terminal)});
  }
  const int64_t position = view.positions.front();
  const std::string next = view.Next(0, names);
  return fmt::format("position {}, token {}{}\n\n", position,
                     names.Shown(view.text.ids[static_cast<size_t>(position)]),
                     next.empty() ? "" : ", in the text comes " + next) +
         RenderTable({"after", ">KL to final", ">rank", ">entropy", "likeliest"}, rows);
}

}  // namespace

std::string LensLayerName(int64_t layer) {
  return layer == 0 ? "embedding" : fmt::format("block {}", layer - 1);
}

std::string LensView::Next(size_t position, const TokenNames& names) const {
  const auto next = static_cast<size_t>(positions[position] + 1);
  return next < text.ids.size() ? names.Shown(text.ids[next]) : "";
}

std::string LensTerminalText(const LensView& view, const TokenNames& names,
                             const Terminal& terminal) {
  if (view.positions.size() == 1) return Detail(view, names, terminal);
  const auto fit = static_cast<size_t>(std::max((terminal.width - kLabel) / kColumn, 1));
  std::string text;
  for (size_t begin = 0; begin < view.positions.size(); begin += fit) {
    const size_t end = std::min(begin + fit, view.positions.size());
    text += (begin > 0 ? "\n" : "") + TableOf(view, begin, end, names, terminal);
  }
  return text;
}

}  // namespace folio
