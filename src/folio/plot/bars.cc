#include "folio/plot/bars.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "folio/plot/svg.h"

namespace folio {
namespace {

constexpr double kBarFont = 12, kBarRow = 22, kBar = 14, kBarGap = 8;
constexpr double kMaxBarLabel = 0.35, kMaxNote = 0.25;                     // of the width
constexpr double kBarTickFont = 11, kBarTickRow = 20, kBarTickApart = 80;  // of the axis
constexpr double kLeastPlot = 60, kLeastWidth = 240;

std::string NoteOf(const Bar& bar) {
  if (!bar.note.empty()) return bar.note;
  if (!std::isfinite(bar.value)) return "not finite";
  const std::string digits = fmt::format("{:.4g}", std::abs(bar.value));
  return bar.value < 0 ? "\xE2\x88\x92" + digits : digits;
}

// The bars lie between `left` and `right`, 0 at `zero`.
struct BarLayout {
  double label_width = 0, note_width = 0;
  double left = 0, right = 0, zero = 0;
  double least = 0, most = 0;
  double extent = 0;  // half of the values between left and right; 0 if there are none

  double Pixel(double value) const {
    if (extent == 0) return zero;
    return std::clamp(zero + value / 2 / extent * (right - left), left, right);
  }
};

BarLayout LayOut(std::span<const Bar> bars, const BarsOptions& options) {
  BarLayout at;
  double& least = at.least;
  double& most = at.most;
  double notes_left = 0;
  for (const Bar& bar : bars) {
    at.label_width = std::max(at.label_width, TextWidth(bar.label, kBarFont));
    at.note_width = std::max(at.note_width, TextWidth(NoteOf(bar), kBarFont));
    if (!std::isfinite(bar.value)) continue;
    least = std::min(least, bar.value);
    most = std::max(most, bar.value);
  }
  at.label_width = std::min(at.label_width, options.width * kMaxBarLabel);
  at.note_width = std::min(at.note_width, options.width * kMaxNote);
  if (least < 0) notes_left = at.note_width + kBarGap;
  at.left = kFigureMargin + at.label_width + kBarGap + notes_left;
  at.right =
      std::max(options.width - kFigureMargin - kBarGap - at.note_width, at.left + kLeastPlot);
  if (options.full > 0) {
    if (least < 0) least = -options.full;
    most = options.full;
  }
  // Halves, so that the range of the largest doubles is one.
  at.extent = most / 2 - least / 2;
  at.zero = at.left;
  if (at.extent > 0) at.zero -= least / 2 / at.extent * (at.right - at.left);
  return at;
}

// None where there are no values, or none that ticks could name.
std::vector<Tick> TicksOf(const BarLayout& at) {
  if (!(at.extent > 1e-300) || !(at.extent < 1e300)) return {};
  const auto count = static_cast<int>((at.right - at.left) / kBarTickApart);
  return LinearTicks(at.least, at.most, std::clamp(count, 1, 5));
}

// Lines behind the bars, from `top` down, and numbers below them.
void DrawTicks(SvgWriter& svg, std::span<const Tick> ticks, const BarLayout& at, double top,
               double rows) {
  std::string grid;
  for (const Tick& tick : ticks) {
    const double x = at.Pixel(tick.value);
    grid += fmt::format("M{} {}v{}", SvgNumber(x), SvgNumber(top), SvgNumber(rows));
    svg.Text(tick.label, x, top + rows + kBarTickFont + 4,
             {.style = "muted", .font = kBarTickFont, .anchor = "middle"});
  }
  svg.Element("path", {{"class", "grid"}, {"d", grid}});
}

void DrawBar(SvgWriter& svg, const Bar& bar, const BarLayout& at, double y) {
  const double base = y + kBarRow / 2 + kBarFont * 0.35;
  const double value = std::isfinite(bar.value) ? bar.value : 0;
  const double end = at.Pixel(value);
  const bool left = value < 0;
  const char* area = left ? "minus" : "plus";
  svg.Text(FitText(bar.label, kBarFont, at.label_width), kFigureMargin + at.label_width, base,
           {.style = bar.muted ? "muted" : "ink", .anchor = "end"});
  svg.Rect(bar.muted ? "off" : area,
           {std::min(at.zero, end), y + (kBarRow - kBar) / 2, std::abs(end - at.zero), kBar});
  svg.Text(FitText(NoteOf(bar), kBarFont, at.note_width), end + (left ? -kBarGap : kBarGap), base,
           {.style = "muted", .anchor = left ? "end" : "start"});
}

}  // namespace

std::string BarsSvg(std::span<const Bar> bars, const BarsOptions& options) {
  BarsOptions sized = options;
  sized.width = std::max(options.width, kLeastWidth);
  const Heading heading(options.title, {}, sized.width - 2 * kFigureMargin);
  const BarLayout at = LayOut(bars, sized);
  const double width = std::max(sized.width, at.right + kBarGap + at.note_width + kFigureMargin);
  const double top = kFigureMargin + heading.Height();
  const double rows = static_cast<double>(std::max<size_t>(bars.size(), 1)) * kBarRow;
  const std::vector<Tick> ticks = TicksOf(at);
  SvgWriter svg(std::ceil(width), top + rows + (ticks.empty() ? 0 : kBarTickRow) + kFigureMargin,
                options.title.empty() ? "bars" : options.title);
  heading.Draw(svg, kFigureMargin, kFigureMargin);
  if (bars.empty()) {
    svg.Text("no data", kFigureMargin, top + kBarRow * 0.7, {.style = "muted"});
    return std::move(svg).Finish();
  }
  if (!ticks.empty()) DrawTicks(svg, ticks, at, top, rows);
  for (size_t i = 0; i < bars.size(); ++i) {
    DrawBar(svg, bars[i], at, top + static_cast<double>(i) * kBarRow);
  }
  svg.Element(
      "path",
      {{"class", "axis"},
       {"d", fmt::format("M{} {}v{}", SvgNumber(at.zero), SvgNumber(top), SvgNumber(rows))}});
  return std::move(svg).Finish();
}

}  // namespace folio
