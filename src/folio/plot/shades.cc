#include "folio/plot/shades.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "folio/base/check.h"
#include "folio/plot/png.h"

namespace folio {
namespace {

constexpr double kDecades = 4;
constexpr double kAboutEqual = 0.8;  // the least value by the largest
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

// One picture of what `level` (0 to 1) makes of each shade; "" if that is 0 everywhere.
template <typename Level>
std::string PictureOf(const Shades& shades, int64_t cell_width, int64_t cell_height, Level level) {
  const int64_t width = shades.columns * cell_width;
  std::vector<uint8_t> pixels;
  pixels.reserve(static_cast<size_t>(width * shades.rows * cell_height));
  bool any = false;
  std::vector<uint8_t> line(static_cast<size_t>(width));
  for (int64_t r = 0; r < shades.rows; ++r) {
    for (int64_t c = 0; c < shades.columns; ++c) {
      const double value = level(shades.values[static_cast<size_t>(r * shades.columns + c)]);
      const auto grey = static_cast<uint8_t>(std::lround(value * 255));
      any |= grey != 0;
      std::fill_n(line.begin() + c * cell_width, cell_width, grey);
    }
    for (int64_t i = 0; i < cell_height; ++i) {
      pixels.insert(pixels.end(), line.begin(), line.end());
    }
  }
  return any ? GreyPng(pixels, width, shades.rows * cell_height) : "";
}

// `map`, with rows, columns and values, in cells of down x across, each the value of the largest
// size of those that it stands for; NaN where none is finite.
template <typename Map>
void PoolCells(int64_t down, int64_t across, Map* map) {
  const int64_t rows = (map->rows + down - 1) / down;
  const int64_t columns = (map->columns + across - 1) / across;
  std::vector<float> pooled(static_cast<size_t>(rows * columns),
                            std::numeric_limits<float>::quiet_NaN());
  for (int64_t r = 0; r < map->rows; ++r) {
    for (int64_t c = 0; c < map->columns; ++c) {
      const float v = map->values[static_cast<size_t>(r * map->columns + c)];
      float& largest = pooled[static_cast<size_t>(r / down * columns + c / across)];
      if (!std::isfinite(v)) continue;
      if (std::isnan(largest) || std::abs(v) > std::abs(largest)) largest = v;
    }
  }
  map->rows = rows;
  map->columns = columns;
  map->values = std::move(pooled);
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

HeatRange RangeOf(std::span<const Heatmap> maps, const HeatmapOptions& options) {
  HeatRange range{.scale = options.scale, .full = 0};
  double least = std::numeric_limits<double>::infinity();
  int64_t count = 0;
  for (const Heatmap& map : maps) {
    for (const float value : map.values) {
      if (!std::isfinite(value)) continue;
      range.is_signed |= value < 0;
      const double size = std::abs(static_cast<double>(value));
      range.full = std::max(range.full, size);
      least = std::min(least, size);
      ++count;
    }
  }
  // Full colour everywhere would look like many strong values.
  if (!range.is_signed && count > 1 && least >= kAboutEqual * range.full) range.full *= 2;
  range.full = GivenFull(options).value_or(range.full);
  if (range.full == 0 || options.per_row) range.full = 1;
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

std::string MeaningOf(const HeatRange& range, bool per_row) {
  std::string scale;
  if (!range.is_signed && range.scale == HeatScale::kSqrt) scale = ", square-root scale";
  if (!range.is_signed && range.scale == HeatScale::kLog) scale = ", logarithmic scale";
  if (per_row) return "share of each row's largest value" + scale;
  return fmt::format("full colour is {:.3g}{}", range.full, scale);
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
    svg.Rect(AreaClass(shade), {x + i * step, y, step, kKeyBar}, std::abs(shade));
  }
  svg.Rect("frame", {x, y, kKeyWidth, kKeyBar});
  std::string marks;
  for (const Tick& tick : KeyTicks(range)) {
    const double at = x + (Shade(tick.value, range) - low) / (1 - low) * kKeyWidth;
    marks += fmt::format("M{} {}v4", SvgNumber(at), SvgNumber(y + kKeyBar));
    svg.Text(tick.label, at, y + kKeyBar + 5 + kKeyFont, {.style = "muted", .anchor = "middle"});
  }
  svg.Element("path", {{"class", "axis"}, {"d", marks}});
  if (masked) {
    const double left = x + kKeyWidth + 1.5 * kKeyFont;
    svg.Element("rect", {{"x", left},
                         {"y", y},
                         {"width", kKeyFont},
                         {"height", kKeyFont},
                         {"fill", "url(#hatch)"}});
    svg.Text(kMasked, left + 1.5 * kKeyFont, y + kKeyFont - 1, {.style = "muted"});
  }
  if (!meaning.empty()) svg.Text(meaning, x, y + kHeight - 6, {.style = "muted"});
  svg.Close();
}

void DefineHatch(SvgWriter& svg) {
  // Not turned by a transform, which makes some programs slow.
  svg.Open("pattern",
           {{"id", "hatch"}, {"width", 6}, {"height", 6}, {"patternUnits", "userSpaceOnUse"}});
  svg.Element("path", {{"class", "hatch"}, {"d", "M-1 1L1 -1M0 6L6 0M5 7L7 5"}});
  svg.Close();
}

bool Shades::AnyMasked() const {
  return std::any_of(values.begin(), values.end(), [](float v) { return std::isnan(v); });
}

Shades ShadesOf(const Heatmap& map, const HeatRange& range, bool per_row) {
  FOLIO_CHECK(map.rows >= 0 && map.columns >= 0 &&
                  map.values.size() == static_cast<size_t>(map.rows * map.columns),
              "the values do not fill the map");
  Shades shades{.rows = map.rows, .columns = map.columns, .values = map.values};
  const auto columns = static_cast<size_t>(map.columns);
  for (size_t at = 0; at < shades.values.size(); at += columns) {
    const std::span<float> row(shades.values.data() + at, columns);
    HeatRange row_range = range;
    if (per_row) {
      double full = 0;
      for (const float v : row) {
        if (std::isfinite(v)) full = std::max(full, std::abs(static_cast<double>(v)));
      }
      row_range.full = full > 0 ? full : 1;
    }
    for (float& v : row) v = static_cast<float>(Shade(v, row_range));
  }
  return shades;
}

int64_t PoolingStep(const Heatmap& map, int64_t most) {
  FOLIO_CHECK(most >= 1, "a map has cells");
  return std::max<int64_t>(1, (std::max(map.rows, map.columns) + most - 1) / most);
}

Heatmap Pooled(const Heatmap& map, int64_t step) {
  if (step == 1) return map;
  Heatmap pooled = map;
  PoolCells(step, step, &pooled);
  pooled.row_labels.clear();
  pooled.column_labels.clear();
  return pooled;
}

Shades Pooled(Shades shades, int64_t max_side) {
  const auto step = [&](int64_t n) { return std::max<int64_t>((n + max_side - 1) / max_side, 1); };
  PoolCells(step(shades.rows), step(shades.columns), &shades);
  return shades;
}

void DrawCells(SvgWriter& svg, const Shades& shades, const PlotBox& box,
               const std::vector<std::string>& tooltips) {
  const double width = box.width / static_cast<double>(shades.columns);
  const double height = box.height / static_cast<double>(shades.rows);
  std::string masked;
  svg.Open("g", {{"shape-rendering", "crispEdges"}});
  for (int64_t r = 0; r < shades.rows; ++r) {
    for (int64_t c = 0; c < shades.columns; ++c) {
      const auto i = static_cast<size_t>(r * shades.columns + c);
      const double shade = shades.values[i];
      const double x = box.x + static_cast<double>(c) * width;
      const double y = box.y + static_cast<double>(r) * height;
      if (std::isnan(shade)) {
        masked += fmt::format("M{} {}h{}v{}h-{}z", SvgNumber(x), SvgNumber(y), SvgNumber(width),
                              SvgNumber(height), SvgNumber(width));
        continue;
      }
      const SvgAttributes attributes = {{"class", std::string(AreaClass(shade))},
                                        {"x", x},
                                        {"y", y},
                                        {"width", width},
                                        {"height", height},
                                        {"fill-opacity", std::abs(shade)}};
      if (tooltips.empty()) {
        if (shade != 0) svg.Element("rect", attributes);
        continue;
      }
      svg.Open("rect", attributes);
      svg.Tooltip(tooltips[i]);
      svg.Close();
    }
  }
  svg.Close();
  if (!masked.empty()) svg.Element("path", {{"fill", "url(#hatch)"}, {"d", masked}});
}

void ShadePictures::Add(const Shades& shades, double x, double y, int64_t cell_width,
                        int64_t cell_height) {
  FOLIO_CHECK(cell_width >= 1 && cell_height >= 1, "a cell has no pixel");
  const PlotBox box{x, y, static_cast<double>(shades.columns * cell_width),
                    static_cast<double>(shades.rows * cell_height)};
  const auto add = [&](std::vector<Picture>& pictures, auto level) {
    std::string png = PictureOf(shades, cell_width, cell_height, level);
    if (!png.empty()) pictures.push_back({box, std::move(png)});
  };
  add(plus_, [](float v) { return v > 0 ? v : 0; });
  add(minus_, [](float v) { return v < 0 ? -v : 0; });
  add(masked_, [](float v) { return std::isnan(v) ? 1 : 0; });
}

void ShadePictures::Draw(SvgWriter& svg, double width, double height) const {
  const auto layer = [&](const std::vector<Picture>& pictures, const std::string& id,
                         const SvgAttribute& paint) {
    if (pictures.empty()) return;
    svg.Open("mask", {{"id", id},
                      {"maskUnits", "userSpaceOnUse"},
                      {"x", 0},
                      {"y", 0},
                      {"width", width},
                      {"height", height}});
    for (const Picture& picture : pictures) {
      svg.Element("image", {{"x", picture.box.x},
                            {"y", picture.box.y},
                            {"width", picture.box.width},
                            {"height", picture.box.height},
                            {"preserveAspectRatio", "none"},
                            {"style", "image-rendering:pixelated"},
                            {"href", "data:image/png;base64," + Base64(picture.png)}});
    }
    svg.Close();
    svg.Element(
        "rect",
        {paint, {"width", width}, {"height", height}, {"mask", fmt::format("url(#{})", id)}});
  };
  layer(plus_, "plus-mask", {"class", "plus"});
  layer(minus_, "minus-mask", {"class", "minus"});
  layer(masked_, "masked-mask", {"fill", "url(#hatch)"});
}

}  // namespace folio
