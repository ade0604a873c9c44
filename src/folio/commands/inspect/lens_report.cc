#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "folio/commands/inspect/inspect_reports.h"
#include "folio/io/json.h"
#include "folio/plot/svg.h"
#include "folio/term/terminal_text.h"

namespace folio {
namespace {

// "embedding", "block 0"
std::string LensLayerName(int64_t layer) {
  return layer == 0 ? "embedding" : fmt::format("block {}", layer - 1);
}

// These are widths of the table, in columns.
constexpr int kToken = 5, kColumn = kToken + 6;  // "token  83% "
constexpr int kLabel = 12;

std::string CellText(const LensCell& cell, const TokenNames& names, const Terminal& terminal) {
  if (cell.top.empty()) return std::string(kColumn, ' ');
  const TokenProbability& best = cell.top.front();
  const std::string token = FitColumns(terminal, names.Shown(best.id), kToken);
  return Heated(terminal, best.probability,
                token + " " + PadLeft(PercentText(best.probability), 4)) +
         ' ';
}

std::string TableRow(const std::string& label, const std::vector<std::string>& cells) {
  std::string line = fmt::format("{:<{}}", label, kLabel);
  for (const std::string& cell : cells) line += cell;
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

// The table of positions [begin, end) of the view.
std::string TableOf(const LensView& view, size_t begin, size_t end, const TokenNames& names,
                    const Terminal& terminal) {
  std::vector<std::string> positions, tokens, next;
  for (size_t i = begin; i < end; ++i) {
    positions.push_back(fmt::format("{:<{}}", view.positions[i], kColumn));
    tokens.push_back(FitColumns(terminal, view.Token(i, names), kColumn - 1) + " ");
    next.push_back(FitColumns(terminal, view.Next(i, names), kColumn - 1) + " ");
  }
  std::string text = Styled(terminal, Style::kDim, TableRow("position", positions));
  text += TableRow("token", tokens);
  for (int64_t layer = 0; layer < view.layers; ++layer) {
    std::vector<std::string> cells;
    for (size_t i = begin; i < end; ++i) {
      cells.push_back(CellText(view.Cell(i, layer), names, terminal));
    }
    text += TableRow(LensLayerName(layer), cells);
  }
  return text + TableRow("in the text", next);
}

// All that is known of a position of the view, and in words which it is.
ReportTable DetailTable(const LensView& view, size_t index, const TokenNames& names) {
  ReportTable table;
  for (int64_t layer = 0; layer < view.layers; ++layer) {
    const LensCell& cell = view.Cell(index, layer);
    table.rows.push_back({{"layer", "", layer},
                          {"", "after", LensLayerName(layer)},
                          {"kl", ">KL to final", Value::Fixed(cell.kl, 3)},
                          {"final_rank", ">rank", cell.final_rank + 1},
                          {"entropy", ">entropy", Value::Fixed(cell.entropy, 3)},
                          {"top", "likeliest", LikeliestTokens(names, cell.top)}});
  }
  return table;
}

std::string PositionText(const LensView& view, size_t index, const TokenNames& names) {
  const std::string next = view.Next(index, names);
  return fmt::format("position {}, token {}{}", view.positions[index], view.Token(index, names),
                     next.empty() ? "" : ", the text continues with " + next);
}

// These are sizes of the figure, in pixels.
constexpr double kCellWidth = 74, kCellHeight = 34, kLabelWidth = 84;
constexpr double kBandHead = 40, kBandFoot = 36;
constexpr size_t kBand = 12;  // positions beside each other

struct CellPlace {
  double x, y;
};

void DrawCell(SvgWriter& svg, const CellPlace& at, const LensCell& cell, const TokenNames& names) {
  if (cell.top.empty()) return;
  const TokenProbability& best = cell.top.front();
  const double heat = std::isfinite(best.probability) ? std::clamp(best.probability, 0.0, 1.0) : 0;
  svg.Rect(AreaClass(heat), {at.x, at.y, kCellWidth - 2, kCellHeight - 2}, heat);
  const std::string_view ink = TextOnClass(heat);
  const double middle = at.x + (kCellWidth - 2) / 2;
  svg.Text(FitText(names.Shown(best.id), 12, kCellWidth - 8), middle, at.y + 14,
           {.style = ink, .anchor = "middle"});
  svg.Text(PercentText(best.probability), middle, at.y + 27,
           {.style = ink, .font = 10, .anchor = "middle"});
}

// A row of text centred above or below the columns.
void DrawTokens(SvgWriter& svg, const std::string& label, double y,
                const std::vector<std::string>& texts) {
  svg.Text(label, kFigureMargin, y, {.style = "muted"});
  for (size_t i = 0; i < texts.size(); ++i) {
    const double x = kFigureMargin + kLabelWidth + (static_cast<double>(i) + 0.5) * kCellWidth - 1;
    svg.Text(FitText(texts[i], 12, kCellWidth - 6), x, y, {.anchor = "middle"});
  }
}

// Positions [begin, end) of the view, from `top` downward.
void DrawBand(SvgWriter& svg, const LensView& view, size_t begin, size_t end, double top,
              const TokenNames& names) {
  std::vector<std::string> tokens, numbers, next;
  for (size_t i = begin; i < end; ++i) {
    numbers.push_back(fmt::format("{}", view.positions[i]));
    tokens.push_back(view.Token(i, names));
    next.push_back(view.Next(i, names));
  }
  DrawTokens(svg, "position", top + 14, numbers);
  DrawTokens(svg, "token", top + 31, tokens);
  top += kBandHead;
  for (int64_t layer = 0; layer < view.layers; ++layer) {
    const double y = top + static_cast<double>(layer) * kCellHeight;
    svg.Text(LensLayerName(layer), kFigureMargin, y + kCellHeight / 2 + 3, {.style = "muted"});
    for (size_t i = begin; i < end; ++i) {
      const double x = kFigureMargin + kLabelWidth + static_cast<double>(i - begin) * kCellWidth;
      DrawCell(svg, {x, y}, view.Cell(i, layer), names);
    }
  }
  DrawTokens(svg, "in the text", top + static_cast<double>(view.layers) * kCellHeight + 16, next);
}

// Returns a sentence that says which positions of the text the view has.
std::string PositionsShown(const LensView& view) {
  const size_t T = view.text.ids.size(), count = view.positions.size();
  if (count == T) return fmt::format("All {} positions of the text.", T);
  const int64_t first = view.positions.front(), last = view.positions.back();
  const bool in_a_row =
      std::ranges::is_sorted(view.positions) && std::cmp_equal(last - first + 1, count);
  return fmt::format("{} of the text's {} positions{}.", count, T,
                     in_a_row && count > 1 ? fmt::format(", {} to {}", first, last) : "");
}

std::string TerminalTable(const LensView& view, const TokenNames& names, const Terminal& terminal) {
  const auto fit = static_cast<size_t>(std::max((terminal.width - kLabel) / kColumn, 1));
  std::string text;
  for (size_t begin = 0; begin < view.positions.size(); begin += fit) {
    const size_t end = std::min(begin + fit, view.positions.size());
    text += (begin > 0 ? "\n" : "") + TableOf(view, begin, end, names, terminal);
  }
  return text;
}

std::string Figure(const LensView& view, const TokenNames& names) {
  const size_t count = view.positions.size(), bands = (count + kBand - 1) / kBand;
  const auto columns = static_cast<double>(std::min(count, kBand));
  const double band = kBandHead + static_cast<double>(view.layers) * kCellHeight + kBandFoot;
  const double width = std::max(kFigureMargin * 2 + kLabelWidth + columns * kCellWidth, 640.0);
  const std::string title = "Logit lens: the likeliest next token after each block";
  const Heading heading(title, {"Colour and number: its probability.", PositionsShown(view)},
                        width - 2 * kFigureMargin);
  const double top = kFigureMargin + heading.Height();
  SvgWriter svg(width, top + static_cast<double>(bands) * band, title);
  heading.Draw(svg, kFigureMargin, kFigureMargin);
  for (size_t i = 0; i < bands; ++i) {
    DrawBand(svg, view, i * kBand, std::min((i + 1) * kBand, count),
             top + static_cast<double>(i) * band, names);
  }
  return std::move(svg).Finish();
}

}  // namespace

Report LensReport(const LensView& view, const TokenNames& names) {
  const bool single = view.positions.size() == 1;
  Report report{.title = "Logit lens"};
  report.parts.push_back(
      {.text = "What the model would predict after the embedding and after each block, as if it "
               "ended there: the last norm and the head are applied to the residual stream. KL is "
               "the divergence of the final prediction from this one, in nats; rank is the rank "
               "here of the finally predicted token; entropy is that of the prediction, in nats.",
       .medium = Medium::kPage});
  ReportPart table{.drawing_name = "lens",
                   .drawing = [&view, names] { return Figure(view, names); }};
  if (!single) {
    table.terminal = [&view, names](const Terminal& at) { return TerminalTable(view, names, at); };
  }
  report.parts.push_back(std::move(table));
  Json positions = Json::array();
  for (size_t i = 0; i < view.positions.size(); ++i) {
    ReportPart detail{.heading = PositionText(view, i, names),
                      .table = DetailTable(view, i, names),
                      .medium = single ? Medium::kBoth : Medium::kPage};
    positions.push_back({{"position", view.positions[i]}, {"layers", AsJson(detail.table.rows)}});
    report.parts.push_back(std::move(detail));
  }
  report.data = {{"left_out", view.text.left_out},
                 {"tokens", names.AsJson(view.text.ids)},
                 {"positions", std::move(positions)}};
  return report;
}

}  // namespace folio
