// The figure of `folio inspect lens`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "folio/inspect/lens_view.h"
#include "folio/plot/colour.h"
#include "folio/plot/svg.h"

namespace folio {
namespace {

constexpr double kCellWidth = 74, kCellHeight = 34, kLabelWidth = 84;
constexpr double kMargin = 16, kTop = 52, kBandHead = 40, kBandFoot = 36;
constexpr size_t kBand = 12;  // positions beside each other

struct CellPlace {
  double x, y;
};

void DrawCell(SvgWriter& svg, const CellPlace& at, const LensCell& cell, const TokenNames& names) {
  if (cell.top.empty()) return;
  const TokenProbability& best = cell.top.front();
  const double heat = std::isfinite(best.probability) ? std::clamp(best.probability, 0.0, 1.0) : 0;
  svg.Element("rect", {{"class", std::string(AreaClass(heat))},
                       {"fill-opacity", heat},
                       {"x", at.x},
                       {"y", at.y},
                       {"width", kCellWidth - 2},
                       {"height", kCellHeight - 2}});
  const std::string ink(TextOnClass(heat));
  const double middle = at.x + (kCellWidth - 2) / 2;
  svg.Text(FitText(names.Shown(best.id), 12, kCellWidth - 8),
           {{"class", ink}, {"x", middle}, {"y", at.y + 14}, {"text-anchor", "middle"}});
  svg.Text(fmt::format("{:.2f}", best.probability), {{"class", ink},
                                                     {"x", middle},
                                                     {"y", at.y + 27},
                                                     {"text-anchor", "middle"},
                                                     {"font-size", "10"}});
}

// A row of text centred above or below the columns.
void DrawTokens(SvgWriter& svg, const std::string& label, double y,
                const std::vector<std::string>& texts) {
  svg.Text(label, {{"class", "muted"}, {"x", kMargin}, {"y", y}});
  for (size_t i = 0; i < texts.size(); ++i) {
    const double x = kMargin + kLabelWidth + (static_cast<double>(i) + 0.5) * kCellWidth - 1;
    svg.Text(FitText(texts[i], 12, kCellWidth - 6),
             {{"class", "ink"}, {"x", x}, {"y", y}, {"text-anchor", "middle"}});
  }
}

// Positions [begin, end) of the view, from `top` downward.
void DrawBand(SvgWriter& svg, const LensView& view, size_t begin, size_t end, double top,
              const TokenNames& names) {
  std::vector<std::string> tokens, numbers, next;
  for (size_t i = begin; i < end; ++i) {
    numbers.push_back(fmt::format("{}", view.positions[i]));
    tokens.push_back(names.Shown(view.text.ids[static_cast<size_t>(view.positions[i])]));
    next.push_back(view.Next(i, names));
  }
  DrawTokens(svg, "position", top + 14, numbers);
  DrawTokens(svg, "token", top + 31, tokens);
  top += kBandHead;
  for (int64_t layer = 0; layer < view.layers; ++layer) {
    const double y = top + static_cast<double>(layer) * kCellHeight;
    svg.Text(LensLayerName(layer),
             {{"class", "muted"}, {"x", kMargin}, {"y", y + kCellHeight / 2 + 3}});
    for (size_t i = begin; i < end; ++i) {
      const double x = kMargin + kLabelWidth + static_cast<double>(i - begin) * kCellWidth;
      DrawCell(svg, {x, y}, view.Cell(i, layer), names);
    }
  }
  DrawTokens(svg, "in the text", top + static_cast<double>(view.layers) * kCellHeight + 16, next);
}

}  // namespace

std::string LensSvg(const LensView& view, const TokenNames& names) {
  const size_t count = view.positions.size(), bands = (count + kBand - 1) / kBand;
  const auto columns = static_cast<double>(std::min(count, kBand));
  const double band = kBandHead + static_cast<double>(view.layers) * kCellHeight + kBandFoot;
  const double width = std::max(kMargin * 2 + kLabelWidth + columns * kCellWidth, 420.0);
  SvgWriter svg(width, kTop + static_cast<double>(bands) * band, "Logit lens");
  svg.Text("Logit lens: the likeliest next token after each block",
           {{"class", "ink"}, {"x", kMargin}, {"y", 26.0}, {"font-size", "15"}});
  svg.Text("colour and number: its probability", {{"class", "muted"}, {"x", kMargin}, {"y", 44.0}});
  for (size_t i = 0; i < bands; ++i) {
    DrawBand(svg, view, i * kBand, std::min((i + 1) * kBand, count),
             kTop + static_cast<double>(i) * band, names);
  }
  return std::move(svg).Finish();
}

}  // namespace folio
