#include "folio/plot/colour.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace folio {
namespace {

constexpr double kDecades = 4;
constexpr double kKeyWidth = 240, kKeyBar = 10, kKeyFont = 10;
constexpr int kKeySteps = 40;
constexpr std::string_view kMasked = "masked";

// Ticks whose labels would touch are left out, the outermost and 0 last.
std::vector<Tick> WithoutCrowding(std::vector<Tick> ticks, const HeatRange& range) {
  const double low = range.is_signed ? -1 : 0;
  const auto middle = [&](const Tick& tick) {
    return (Shade(tick.value, range) - low) / (1 - low) * kKeyWidth;
  };
  const auto half = [](const Tick& tick) { return TextWidth(tick.label, kKeyFont) / 2 + 3; };
  std::vector<Tick> kept;
  for (size_t i = ticks.size(); i-- > 0;) {
    const Tick& tick = ticks[i];
    const bool crowded =
        !kept.empty() && middle(tick) + half(tick) > middle(kept.back()) - half(kept.back());
    const bool end = i == 0 || tick.value == 0;
    if (crowded && !end) continue;
    if (crowded) kept.pop_back();
    kept.push_back(tick);
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

}  // namespace

std::string_view AreaClass(double shade) {
  return shade < 0 ? "minus" : "plus";
}

std::string_view TextOnClass(double shade) {
  return std::abs(shade) >= kFullShade ? "on-full" : "on-pale";
}

std::optional<double> GivenFull(const HeatmapOptions& options) {
  const double full = options.full.value_or(0);
  return full >= 1e-300 && full <= 1e300 ? options.full : std::nullopt;
}

HeatRange RangeOf(const Heatmap& map, const HeatmapOptions& options) {
  HeatRange range{.scale = options.scale, .full = 0};
  for (const float value : map.values) {
    if (!std::isfinite(value)) continue;
    range.is_signed |= value < 0;
    range.full = std::max(range.full, std::abs(static_cast<double>(value)));
  }
  range.full = GivenFull(options).value_or(range.full);
  if (range.full == 0) range.full = 1;
  return range;
}

double Shade(double value, const HeatRange& range) {
  if (!std::isfinite(value)) return std::numeric_limits<double>::quiet_NaN();
  const double share = std::clamp(value / range.full, range.is_signed ? -1.0 : 0.0, 1.0);
  if (range.is_signed || range.scale == HeatScale::kLinear) return share;
  if (range.scale == HeatScale::kSqrt) return std::sqrt(share);
  return share > 0 ? std::max(0.0, 1 + std::log10(share) / kDecades) : 0.0;
}

std::vector<Tick> KeyTicks(const HeatRange& range) {
  if (range.is_signed) return WithoutCrowding(LinearTicks(-range.full, range.full, 5), range);
  if (range.scale == HeatScale::kLog) {
    return WithoutCrowding(LogTicks(range.full * std::pow(10, -kDecades), range.full, 5), range);
  }
  std::vector<Tick> ticks = LinearTicks(0, range.full, 5);
  if (range.scale == HeatScale::kSqrt && ticks.size() > 1) {
    // The lowest quarter of the values has half of the key.
    std::vector<Tick> low = LinearTicks(0, ticks[1].value, 3);
    low.pop_back();
    ticks.insert(ticks.erase(ticks.begin()), low.begin(), low.end());
  }
  return WithoutCrowding(std::move(ticks), range);
}

std::string MeaningOf(const HeatRange& range, std::string_view of) {
  std::string scale;
  if (!range.is_signed && range.scale == HeatScale::kSqrt) scale = "square-root scale";
  if (!range.is_signed && range.scale == HeatScale::kLog) scale = "logarithmic scale";
  if (of.empty()) return scale;
  return fmt::format("share of each {}'s largest value{}{}", of, scale.empty() ? "" : ", ", scale);
}

double ColourKey::Width() const {
  double width = kKeyWidth + kKeyFont;
  if (masked) width += 3 * kKeyFont + TextWidth(kMasked, kKeyFont);
  return std::max(width, TextWidth(meaning, kKeyFont));
}

void ColourKey::Draw(SvgWriter& svg, double x, double y) const {
  const double low = range.is_signed ? -1 : 0, step = kKeyWidth / kKeySteps;
  svg.Open("g", {{"font-size", kKeyFont}, {"shape-rendering", "crispEdges"}});
  for (int i = 0; i < kKeySteps; ++i) {
    const double shade = low + (1 - low) * (i + 0.5) / kKeySteps;
    svg.Element("rect", {{"class", std::string(AreaClass(shade))},
                         {"x", x + i * step},
                         {"y", y},
                         {"width", step},
                         {"height", kKeyBar},
                         {"fill-opacity", std::abs(shade)}});
  }
  svg.Element("rect",
              {{"class", "frame"}, {"x", x}, {"y", y}, {"width", kKeyWidth}, {"height", kKeyBar}});
  std::string marks;
  for (const Tick& tick : KeyTicks(range)) {
    const double at = x + (Shade(tick.value, range) - low) / (1 - low) * kKeyWidth;
    marks += fmt::format("M{} {}v4", SvgNumber(at), SvgNumber(y + kKeyBar));
    svg.Text(tick.label, {{"class", "muted"},
                          {"x", at},
                          {"y", y + kKeyBar + 5 + kKeyFont},
                          {"text-anchor", "middle"}});
  }
  svg.Element("path", {{"class", "axis"}, {"d", marks}});
  if (masked) {
    const double left = x + kKeyWidth + 1.5 * kKeyFont;
    svg.Element("rect", {{"x", left},
                         {"y", y},
                         {"width", kKeyFont},
                         {"height", kKeyFont},
                         {"fill", "url(#hatch)"}});
    svg.Text(kMasked, {{"class", "muted"}, {"x", left + 1.5 * kKeyFont}, {"y", y + kKeyFont - 1}});
  }
  if (!meaning.empty()) {
    svg.Text(meaning, {{"class", "muted"}, {"x", x}, {"y", y + kHeight - 6}});
  }
  svg.Close();
}

void DefineHatch(SvgWriter& svg) {
  // Not turned by a transform, which makes some programs slow.
  svg.Open("pattern",
           {{"id", "hatch"}, {"width", 6}, {"height", 6}, {"patternUnits", "userSpaceOnUse"}});
  svg.Element("path", {{"class", "hatch"}, {"d", "M-1 1L1 -1M0 6L6 0M5 7L7 5"}});
  svg.Close();
}

}  // namespace folio
