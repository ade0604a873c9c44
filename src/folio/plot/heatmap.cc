#include "folio/plot/heatmap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "folio/base/base64.h"
#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/plot/png.h"
#include "folio/plot/svg.h"

namespace folio {
namespace {

// The largest magnitude of a finite value; 0 if there is none.
double LargestSize(std::span<const float> values) {
  double largest = 0;
  for (const float v : values) {
    if (std::isfinite(v)) largest = std::max(largest, std::abs(static_cast<double>(v)));
  }
  return largest;
}

// Sizes of labels; cells as high as a line each have one.
constexpr double kCellFont = 11, kCellLine = 14, kCellGap = 5, kMaxWidth = 130;
constexpr double kMiddle = 0.35;  // from the middle of a line of text to its baseline, in font
                                  // sizes

// The smallest of 1, 2, 5, 10, 20, ... cells that have room for `size`.
int64_t StepFor(double size, double cell) {
  for (int64_t power = 1;; power *= 10) {
    for (const int64_t factor : {1, 2, 5}) {
      if (static_cast<double>(factor * power) * cell >= size) return factor * power;
    }
  }
}

int Decimals(double largest) {
  return largest >= 100 ? 0 : largest >= 10 ? 1 : largest >= 0.1 ? 2 : largest >= 0.01 ? 3 : 4;
}

std::string CellNumber(double value, int decimals) {
  std::string text = fmt::format("{:.{}f}", std::abs(value), decimals);
  const bool zero = text.find_first_not_of("0.") == std::string::npos;
  return value < 0 && !zero ? "\xE2\x88\x92" + text : text;
}

// The names of the rows, left of a map, or of the columns, above it: shortened if long, turned if
// too close, thinned to those that fit.
struct CellLabels {
  std::vector<std::string> texts = {};  // one for each cell, "" if not drawn
  bool turned = false;
  double depth = 0;     // the room that they need beside the map
  double overhang = 0;  // how far they extend beyond its first and last cell

  void Keep(const std::vector<std::string>& labels, int64_t step) {
    texts.assign(labels.size(), "");
    for (size_t i = 0; i < labels.size(); i += static_cast<size_t>(step)) {
      texts[i] = FitText(labels[i], kCellFont, kMaxWidth);
    }
  }
  double Widest() const {
    double widest = 0;
    for (const std::string& text : texts) widest = std::max(widest, TextWidth(text, kCellFont));
    return widest;
  }
};

// `cell` is the height of a row.
CellLabels RowLabels(const std::vector<std::string>& labels, double cell) {
  CellLabels result;
  if (labels.empty()) return result;
  result.Keep(labels, StepFor(kCellLine, cell));
  const double widest = result.Widest();
  result.depth = widest > 0 ? widest + kCellGap : 0;
  result.overhang = std::max(0.0, (kCellLine - cell) / 2);
  return result;
}

// `cell` is the width of a column.
CellLabels ColumnLabels(const std::vector<std::string>& labels, double cell) {
  CellLabels result;
  result.Keep(labels, 1);
  const double widest = result.Widest();
  if (widest == 0) return {};
  // Words need more distance than single characters, which stay upright.
  const int64_t level = StepFor(widest + std::min(8.0, widest / 4), cell),
                turned = StepFor(kCellLine, cell);
  result.turned = turned == 1 ? level > 1 : level > 2 * turned;
  result.Keep(labels, result.turned ? turned : level);
  result.depth = (result.turned ? result.Widest() : kCellFont) + kCellGap;
  result.overhang = std::max(0.0, ((result.turned ? kCellLine : result.Widest()) - cell) / 2);
  return result;
}

void DrawRowLabels(SvgWriter& svg, const CellLabels& labels, const PlotBox& map) {
  const double cell = map.height / static_cast<double>(labels.texts.size());
  for (size_t i = 0; i < labels.texts.size(); ++i) {
    if (labels.texts[i].empty()) continue;
    svg.Text(labels.texts[i], map.x - kCellGap,
             map.y + (static_cast<double>(i) + 0.5) * cell + kMiddle * kCellFont,
             {.font = kCellFont, .anchor = "end"});
  }
}

void DrawColumnLabels(SvgWriter& svg, const CellLabels& labels, const PlotBox& map) {
  const double cell = map.width / static_cast<double>(labels.texts.size());
  for (size_t i = 0; i < labels.texts.size(); ++i) {
    const std::string& text = labels.texts[i];
    if (text.empty()) continue;
    const double x = map.x + (static_cast<double>(i) + 0.5) * cell, y = map.y - kCellGap;
    if (labels.turned) {
      svg.Text(text, x + kMiddle * kCellFont, y, {.font = kCellFont, .turned = true});
    } else {
      svg.Text(text, x, y, {.font = kCellFont, .anchor = "middle"});
    }
  }
}

// The values in the cells of a map, if all fit.
void DrawNumbers(SvgWriter& svg, const Heatmap& map, const Heatmap& shades, const PlotBox& box) {
  const double width = box.width / static_cast<double>(map.columns);
  const double height = box.height / static_cast<double>(map.rows);
  const double largest = LargestSize(map.values);
  if (largest >= 1e5 || (largest > 0 && largest < 1e-3)) return;
  std::vector<std::string> texts;
  double widest = 0;
  for (const float v : map.values) {
    texts.push_back(std::isfinite(v) ? CellNumber(v, Decimals(largest)) : "");
    widest = std::max(widest, TextWidth(texts.back(), 1));
  }
  double font = 11;
  while (font >= 9 && (widest * font + 4 > width || font + 4 > height)) --font;
  if (font < 9) return;
  // Numbers ignore the pointer, so that the cells below show their tooltips.
  svg.Open("g", {{"font-size", font}, {"text-anchor", "middle"}, {"pointer-events", "none"}});
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].empty()) continue;
    const size_t row = i / static_cast<size_t>(map.columns);
    const size_t column = i % static_cast<size_t>(map.columns);
    svg.Text(texts[i], box.x + (static_cast<double>(column) + 0.5) * width,
             box.y + (static_cast<double>(row) + 0.5) * height + kMiddle * font,
             {.style = TextOnClass(shades.values[i])});
  }
  svg.Close();
}

constexpr double kDecades = 4;
constexpr double kKeyWidth = 240, kKeyBar = 10, kKeyFont = 10;
constexpr int kKeySteps = 40;
constexpr std::string_view kMasked = "masked";

// Leaves out ticks whose labels would touch; the outermost and 0 last.
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

// The colours of a range from left to right with ticks below, and "masked" behind.
struct ColourKey {
  HeatRange range;
  bool per_row;  // colours are relative to each row's largest value
  bool masked;   // the figure has masked cells

  static constexpr double kHeight = 48;

  std::string Meaning() const {
    std::string scale;
    if (!range.is_signed && range.scale == HeatScale::kSqrt) scale = ", square-root scale";
    if (!range.is_signed && range.scale == HeatScale::kLog) scale = ", logarithmic scale";
    if (per_row) return "relative to the largest value of each row" + scale;
    return fmt::format("full colour: {:.3g}{}", range.full, scale);
  }
  double Width() const {
    double width = kKeyWidth + kKeyFont;
    if (masked) width += 3 * kKeyFont + TextWidth(kMasked, kKeyFont);
    return std::max(width, TextWidth(Meaning(), kKeyFont));
  }

  void Draw(SvgWriter& svg, double x, double y) const {
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
    svg.Text(Meaning(), x, y + kHeight - 6, {.style = "muted"});
    svg.Close();
  }
};

// The pattern that "url(#hatch)" fills with.
void DefineHatch(SvgWriter& svg) {
  // Without a transform, which makes some programs slow.
  svg.Open("pattern",
           {{"id", "hatch"}, {"width", 6}, {"height", 6}, {"patternUnits", "userSpaceOnUse"}});
  svg.Element("path", {{"class", "hatch"}, {"d", "M-1 1L1 -1M0 6L6 0M5 7L7 5"}});
  svg.Close();
}

bool AnyMasked(const Heatmap& map) {
  return std::ranges::any_of(map.values, [](float v) { return std::isnan(v); });
}

// The map of Shade of each value; with `per_row` each row has a range of its own, of the same kind
// as `range`.
Heatmap ShadesOf(const Heatmap& map, const HeatRange& range, bool per_row) {
  Heatmap shades = map;
  const auto columns = static_cast<size_t>(map.columns);
  for (size_t at = 0; at < shades.values.size(); at += columns) {
    const std::span<float> row(shades.values.data() + at, columns);
    HeatRange row_range = range;
    if (per_row) {
      const double full = LargestSize(row);
      row_range.full = full > 0 ? full : 1;
    }
    for (float& v : row) v = static_cast<float>(Shade(v, row_range));
  }
  return shades;
}

// At most `most` rows and columns; each side is pooled separately.
Heatmap PooledTo(const Heatmap& map, int64_t most) {
  return Pooled(map, PoolingStep(map.rows, most), PoolingStep(map.columns, most));
}

// One picture of `level` (0 to 1) of each shade, with cells enlarged to whole pixels; "" if all are
// 0.
std::string PictureOf(const Heatmap& shades, int64_t cell_width, int64_t cell_height,
                      double (*level)(double shade)) {
  const int64_t width = shades.columns * cell_width;
  std::vector<uint8_t> pixels, line(static_cast<size_t>(width));
  bool any = false;
  for (int64_t r = 0; r < shades.rows; ++r) {
    for (int64_t c = 0; c < shades.columns; ++c) {
      const double shade = shades.values[static_cast<size_t>(r * shades.columns + c)];
      const auto grey = static_cast<uint8_t>(std::lround(level(shade) * 255));
      any |= grey != 0;
      std::fill_n(line.begin() + c * cell_width, cell_width, grey);
    }
    for (int64_t i = 0; i < cell_height; ++i) {
      pixels.insert(pixels.end(), line.begin(), line.end());
    }
  }
  return any ? GreyPng(pixels, width, shades.rows * cell_height) : "";
}

// A map of many cells, drawn as pictures. Each cell is enlarged to the whole pixels that it covers,
// because not all programs draw enlarged pictures with sharp edges.
struct CellPicture {
  const Heatmap& shades;
  double x, y;
  int64_t cell_width, cell_height;
};

// Each picture is the mask of a coloured area, so that it follows light and dark mode. `width` and
// `height` are those of the figure.
void DrawPictures(SvgWriter& svg, std::span<const CellPicture> pictures, double width,
                  double height) {
  const auto layer = [&](const std::string& id, const SvgAttribute& paint,
                         double (*level)(double)) {
    bool open = false;
    for (const CellPicture& at : pictures) {
      const std::string png = PictureOf(at.shades, at.cell_width, at.cell_height, level);
      if (png.empty()) continue;
      if (!std::exchange(open, true)) {
        svg.Open("mask", {{"id", id},
                          {"maskUnits", "userSpaceOnUse"},
                          {"x", 0},
                          {"y", 0},
                          {"width", width},
                          {"height", height}});
      }
      svg.Element("image", {{"x", at.x},
                            {"y", at.y},
                            {"width", static_cast<double>(at.shades.columns * at.cell_width)},
                            {"height", static_cast<double>(at.shades.rows * at.cell_height)},
                            {"preserveAspectRatio", "none"},
                            {"style", "image-rendering:pixelated"},
                            {"href", "data:image/png;base64," + Base64(png)}});
    }
    if (!open) return;
    svg.Close();
    svg.Element(
        "rect",
        {paint, {"width", width}, {"height", height}, {"mask", fmt::format("url(#{})", id)}});
  };
  layer("plus-mask", {"class", "plus"}, [](double v) { return v > 0 ? v : 0; });
  layer("minus-mask", {"class", "minus"}, [](double v) { return v < 0 ? -v : 0; });
  layer("masked-mask", {"fill", "url(#hatch)"}, [](double v) { return std::isnan(v) ? 1.0 : 0; });
}

constexpr double kSide = 640;               // approximate, for a map of many cells
constexpr double kLargestCell = 44;         // pixels
constexpr int64_t kMaxRects = 4000;         // cells
constexpr int64_t kMaxTooltips = 1024;      // cells
constexpr int64_t kMaxPictureCells = 1024;  // on each side
constexpr double kAxisFont = 12, kAxisLine = 18;
constexpr double kHeadingWidth = 480;  // the least width if there is text

// The side of a cell in whole pixels, for `cells` side by side.
double CellSide(int64_t cells) {
  const double side = std::round(kSide / static_cast<double>(std::max<int64_t>(cells, 1)));
  return std::clamp(side, 1.0, kLargestCell);
}

// Square cells, except in maps of very unequal sides, where they would be too thin.
PlotBox ChooseCells(const Heatmap& shades) {
  const int64_t longer = std::max(shades.rows, shades.columns);
  const bool square = longer <= 4 * std::min(shades.rows, shades.columns);
  return {.width = CellSide(square ? longer : shades.columns) * static_cast<double>(shades.columns),
          .height = CellSide(square ? longer : shades.rows) * static_cast<double>(shades.rows)};
}

std::string CellName(const std::string& axis, const char* other, int64_t index,
                     const std::vector<std::string>& labels) {
  const std::string label = labels.empty() ? "" : " " + labels[static_cast<size_t>(index)];
  return fmt::format("{} {}{}", axis.empty() ? other : axis, index, label);
}

// A rectangle for each coloured cell, with a tooltip of its value unless there are too many.
void DrawCells(SvgWriter& svg, const Heatmap& map, const Heatmap& shades, const PlotBox& box) {
  const double width = box.width / static_cast<double>(map.columns);
  const double height = box.height / static_cast<double>(map.rows);
  const bool tooltips = map.rows * map.columns <= kMaxTooltips;
  std::string masked;
  svg.Open("g", {{"shape-rendering", "crispEdges"}});
  for (int64_t i = 0; i < std::ssize(map.values); ++i) {
    const int64_t r = i / map.columns, c = i % map.columns;
    const double shade = shades.values[static_cast<size_t>(i)];
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
    if (tooltips) {
      svg.Open("rect", attributes);
      svg.Tooltip(fmt::format("{}, {}: {:.4g}", CellName(map.row_axis, "row", r, map.row_labels),
                              CellName(map.column_axis, "column", c, map.column_labels),
                              map.values[static_cast<size_t>(i)]));
      svg.Close();
    } else if (shade != 0) {
      svg.Element("rect", attributes);
    }
  }
  svg.Close();
  if (!masked.empty()) svg.Element("path", {{"fill", "url(#hatch)"}, {"d", masked}});
}

void DrawAxisNames(SvgWriter& svg, const Heatmap& map, const PlotBox& box, double left, double top,
                   double right) {
  // A name longer than its side may use the empty corner.
  const double width = TextWidth(map.column_axis, kAxisFont);
  if (!map.column_axis.empty()) {
    const bool inside = width <= box.width;
    svg.Text(FitText(map.column_axis, kAxisFont, right - box.x),
             inside ? box.x + box.width / 2 : box.x, top + kAxisFont,
             {.style = "muted", .font = kAxisFont, .anchor = inside ? "middle" : "start"});
  }
  if (!map.row_axis.empty()) {
    const bool inside = TextWidth(map.row_axis, kAxisFont) <= box.height;
    const double y = inside ? box.y + box.height / 2 : box.y + box.height;
    svg.Text(FitText(map.row_axis, kAxisFont, box.y + box.height - top), left + kAxisFont, y,
             {.style = "muted",
              .font = kAxisFont,
              .anchor = inside ? "middle" : "start",
              .turned = true});
  }
}

std::string NoCells(const Heatmap& map, const std::vector<std::string>& notes) {
  const Heading heading(map.title, notes, kHeadingWidth);
  const double width = std::max(heading.Width() + 2 * kFigureMargin, 200.0);
  SvgWriter svg(width, heading.Height() + 60, map.title);
  heading.Draw(svg, kFigureMargin, kFigureMargin);
  svg.Text("no data", kFigureMargin, heading.Height() + 40, {.style = "muted"});
  return std::move(svg).Finish();
}

// The positions of all parts.
struct HeatmapLayout {
  Heading heading;
  CellLabels rows, columns;
  PlotBox map;
  double axis_top;  // of the columns' name
  double key_top;
  double width, height;
};

HeatmapLayout LayOut(const Heatmap& map, const Heatmap& shades, const ColourKey& key,
                     const std::vector<std::string>& notes) {
  PlotBox box = ChooseCells(shades);
  const CellLabels rows = RowLabels(map.row_labels, box.height / static_cast<double>(map.rows));
  const CellLabels columns =
      ColumnLabels(map.column_labels, box.width / static_cast<double>(map.columns));

  const double row_name = map.row_axis.empty() ? 0 : kAxisLine;
  const double column_name = map.column_axis.empty() ? 0 : kAxisLine;
  box.x = std::ceil(kFigureMargin + row_name + std::max(rows.depth, columns.overhang));
  const double beside_key = box.x + std::max(box.width + columns.overhang, key.Width());
  const double named = box.x + std::min(TextWidth(map.column_axis, kAxisFont), kHeadingWidth);
  double right = std::max(beside_key, named);
  Heading heading(map.title, notes, std::max(kHeadingWidth, right - kFigureMargin));
  right = std::max(right, kFigureMargin + heading.Width());
  const double axis_top = kFigureMargin + heading.Height();
  box.y = std::ceil(axis_top + column_name + std::max(columns.depth, rows.overhang));
  const double key_top = box.y + box.height + rows.overhang + kFigureMargin;
  return {.heading = std::move(heading),
          .rows = rows,
          .columns = columns,
          .map = box,
          .axis_top = axis_top,
          .key_top = key_top,
          .width = std::ceil(right + kFigureMargin),
          .height = std::ceil(key_top + ColourKey::kHeight)};
}

// Sizes of grids.
constexpr int64_t kMaxCells = 96;     // on each side of a map
constexpr int64_t kMaxLabelled = 32;  // the most cells on a side for which a map is enlarged to
                                      // show labels
constexpr double kWidth = 960;        // approximate width of the maps in a row
constexpr double kWidest = 1800;      // the same with labels
constexpr double kSmallest = 80, kLargestMap = 200, kThinnest = 16;  // approximate sides of a map
constexpr double kNarrowest = 48;                                    // a column
constexpr double kBetween = 12;                                      // maps
constexpr double kMapTitleFont = 11, kMapTitleLine = 15, kCaptionFont = 10, kCaptionLine = 13;

// A map of the grid, and the whole pixels of one of its cells.
struct Thumbnail {
  Heatmap shades;
  int64_t cell_width = 1, cell_height = 1;
  CellLabels left = {}, above = {};

  double Width() const { return static_cast<double>(shades.columns * cell_width); }
  double Height() const { return static_cast<double>(shades.rows * cell_height); }
};

int64_t Pixels(double side, int64_t cells) {
  return std::max<int64_t>(std::llround(side / static_cast<double>(cells)), 1);
}

// Square cells, except in maps that would be too thin.
Thumbnail MakeThumbnail(Heatmap shades, double side) {
  Thumbnail result{.shades = std::move(shades)};
  if (result.shades.values.empty()) return result;
  const int64_t longer = std::max(result.shades.rows, result.shades.columns);
  result.cell_width = result.cell_height = Pixels(side, longer);
  if (result.Width() < kThinnest) result.cell_width = Pixels(kThinnest, result.shades.columns);
  if (result.Height() < kThinnest) result.cell_height = Pixels(kThinnest, result.shades.rows);
  return result;
}

// The maps of a grid, and their common layout.
struct Grid {
  std::vector<Thumbnail> maps;
  HeatRange range;
  bool masked = false;
  double width = kNarrowest, height = 0;  // of the largest map
  double title_height = 0, caption_height = 0;
  double left = 0;                 // room for labels
  std::vector<double> above = {};  // the same, above each row

  double RowHeight(size_t row) const {
    return title_height + above[row] + height + caption_height + kBetween;
  }
  double AllRows() const {
    double sum = 0;
    for (size_t row = 0; row < above.size(); ++row) sum += RowHeight(row);
    return sum;
  }
};

Grid MakeGrid(std::span<const Heatmap> maps, double side, const HeatmapOptions& options) {
  Grid grid;
  grid.range = RangeOf(maps, options);
  for (const Heatmap& map : maps) {
    Thumbnail thumbnail =
        MakeThumbnail(PooledTo(ShadesOf(map, grid.range, options.per_row), kMaxCells), side);
    grid.masked |= AnyMasked(thumbnail.shades);
    grid.width = std::max(grid.width, thumbnail.Width());
    grid.height = std::max(grid.height, thumbnail.Height());
    if (!map.title.empty()) grid.title_height = kMapTitleLine;
    if (!map.caption.empty()) grid.caption_height = kCaptionLine;
    grid.maps.push_back(std::move(thumbnail));
  }
  return grid;
}

// Adds labels to the first map of each row, unless the row above has the same.
void AddLabels(std::span<const Heatmap> maps, size_t columns, Grid* grid) {
  grid->above.resize((maps.size() + columns - 1) / columns);
  const bool room = std::ranges::all_of(grid->maps, [](const Thumbnail& map) {
    return static_cast<double>(std::min(map.cell_width, map.cell_height)) >= kCellLine;
  });
  if (!room) return;
  for (size_t i = 0; i < maps.size(); i += columns) {
    if (i > 0 && maps[i].row_labels == maps[i - columns].row_labels &&
        maps[i].column_labels == maps[i - columns].column_labels) {
      continue;
    }
    Thumbnail& map = grid->maps[i];
    map.above = ColumnLabels(maps[i].column_labels, static_cast<double>(map.cell_width));
    map.left = RowLabels(maps[i].row_labels, static_cast<double>(map.cell_height));
    grid->above[i / columns] = map.above.depth;
    grid->left = std::max(grid->left, map.left.depth);
  }
}

// The side of a map in a row of this many; more if few maps with labels of few cells are in a row.
double SideOf(std::span<const Heatmap> maps, size_t columns) {
  const auto across = static_cast<double>(std::min(columns, maps.size()));
  double side =
      std::clamp(kWidth / static_cast<double>(columns) - kBetween, kSmallest, kLargestMap);
  for (const Heatmap& map : maps) {
    const int64_t cells = std::max(map.rows, map.columns);
    const bool labels = !map.row_labels.empty() || !map.column_labels.empty();
    const double labelled = static_cast<double>(cells) * kCellLine;
    if (labels && cells <= kMaxLabelled && across * labelled <= kWidest) {
      side = std::max(side, labelled);
    }
  }
  return side;
}

void DrawName(SvgWriter& svg, const std::string& text, const char* style, double x, double y,
              double font, double width) {
  if (text.empty()) return;
  svg.Text(FitText(text, font, width), x, y + font, {.style = style, .font = font});
}

// Returns the maps' pictures, which are drawn together.
std::vector<CellPicture> DrawMaps(SvgWriter& svg, std::span<const Heatmap> maps, const Grid& grid,
                                  size_t columns, double y) {
  std::vector<CellPicture> pictures;
  for (size_t i = 0; i < maps.size(); ++i) {
    if (i > 0 && i % columns == 0) y += grid.RowHeight(i / columns - 1);
    const auto column = static_cast<double>(i % columns);
    const Thumbnail& map = grid.maps[i];
    const double x = kFigureMargin + grid.left + column * (grid.width + kBetween);
    const double map_top = y + grid.title_height + grid.above[i / columns];
    DrawName(svg, maps[i].title, "ink", x, y, kMapTitleFont, grid.width);
    DrawName(svg, maps[i].caption, "muted", x, map_top + grid.height + 1, kCaptionFont, grid.width);
    if (map.shades.values.empty()) continue;
    pictures.push_back({map.shades, x, map_top, map.cell_width, map.cell_height});
    const PlotBox box{x, map_top, map.Width(), map.Height()};
    DrawRowLabels(svg, map.left, box);
    DrawColumnLabels(svg, map.above, box);
    svg.Rect("frame", box);
  }
  return pictures;
}

// Throws unless values and labels match the numbers of cells, rows and columns.
void RequireFilled(const Heatmap& map) {
  const auto fills = [](const std::vector<std::string>& labels, int64_t cells) {
    return labels.empty() || std::ssize(labels) == cells;
  };
  const bool sizes = map.rows >= 0 && map.columns >= 0 &&
                     (map.columns == 0 || map.rows <= INT64_MAX / map.columns) &&
                     std::ssize(map.values) == map.rows * map.columns;
  if (sizes && fills(map.row_labels, map.rows) && fills(map.column_labels, map.columns)) return;
  throw UsageError(fmt::format("a map of {} x {} cells that its values or labels do not fill",
                               map.rows, map.columns),
                   fmt::format("{} values, {} and {} labels", map.values.size(),
                               map.row_labels.size(), map.column_labels.size()));
}

}  // namespace

HeatRange RangeOf(std::span<const Heatmap> maps, const HeatmapOptions& options) {
  constexpr double kAboutEqual = 0.8;  // the smallest value divided by the largest
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
  const double given = options.full.value_or(0);
  if (given >= 1e-300 && given <= 1e300) range.full = given;
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
    // The lowest quarter of the values takes half of the key.
    std::vector<Tick> low = LinearTicks(0, ticks[1].value, 3);
    low.pop_back();
    ticks.insert(ticks.erase(ticks.begin()), low.begin(), low.end());
  }
  return WithoutCrowding(std::move(ticks), range);
}

int64_t PoolingStep(int64_t cells, int64_t most) {
  FOLIO_CHECK(most >= 1, "a map has cells");
  return std::max<int64_t>(1, (cells + most - 1) / most);
}

Heatmap Pooled(const Heatmap& map, int64_t down, int64_t across) {
  if (down == 1 && across == 1) return map;
  Heatmap pooled = map;
  pooled.row_labels.clear();
  pooled.column_labels.clear();
  pooled.rows = (map.rows + down - 1) / down;
  pooled.columns = (map.columns + across - 1) / across;
  pooled.values.assign(static_cast<size_t>(pooled.rows * pooled.columns),
                       std::numeric_limits<float>::quiet_NaN());
  for (int64_t r = 0; r < map.rows; ++r) {
    for (int64_t c = 0; c < map.columns; ++c) {
      const float v = map.values[static_cast<size_t>(r * map.columns + c)];
      float& largest = pooled.values[static_cast<size_t>(r / down * pooled.columns + c / across)];
      if (!std::isfinite(v)) continue;
      if (std::isnan(largest) || std::abs(v) > std::abs(largest)) largest = v;
    }
  }
  return pooled;
}

Heatmap WithoutFirstColumn(const Heatmap& map, double* mean_share) {
  RequireFilled(map);
  if (map.columns < 1) throw UsageError("there is no first column");
  Heatmap rest = map;
  rest.columns = map.columns - 1;
  rest.values.clear();
  if (!rest.column_labels.empty()) rest.column_labels.erase(rest.column_labels.begin());
  double shares = 0;
  int64_t counted = 0;
  for (int64_t r = 0; r < map.rows; ++r) {
    const float* row = map.values.data() + r * map.columns;
    double left = 0;
    for (int64_t c = 1; c < map.columns; ++c) left += std::isfinite(row[c]) ? row[c] : 0;
    for (int64_t c = 1; c < map.columns; ++c) {
      rest.values.push_back(left > 0 ? static_cast<float>(row[c] / left)
                                     : std::numeric_limits<float>::quiet_NaN());
    }
    const double whole = left + row[0];
    if (r == 0 || !std::isfinite(whole) || whole <= 0) continue;
    shares += row[0] / whole;
    ++counted;
  }
  *mean_share = counted > 0 ? shares / static_cast<double>(counted) : 0;
  return rest;
}

std::string HeatmapSvg(const Heatmap& map, const HeatmapOptions& options) {
  RequireFilled(map);
  std::vector<std::string> notes;
  if (!map.caption.empty()) notes.push_back(map.caption);
  if (map.values.empty()) return NoCells(map, notes);
  const HeatRange range = RangeOf(std::span(&map, 1), options);
  Heatmap shades = ShadesOf(map, range, options.per_row);
  const bool picture = map.rows * map.columns > kMaxRects;
  if (picture) shades = PooledTo(shades, kMaxPictureCells);
  const ColourKey key{range, options.per_row, AnyMasked(shades)};
  const HeatmapLayout at = LayOut(map, shades, key, notes);

  SvgWriter svg(at.width, at.height, map.title.empty() ? "heat map" : map.title);
  DefineHatch(svg);
  at.heading.Draw(svg, kFigureMargin, kFigureMargin);
  if (picture) {
    const CellPicture whole{shades, at.map.x, at.map.y,
                            std::lround(at.map.width / static_cast<double>(shades.columns)),
                            std::lround(at.map.height / static_cast<double>(shades.rows))};
    DrawPictures(svg, {&whole, 1}, at.width, at.height);
  } else {
    DrawCells(svg, map, shades, at.map);
    if (options.numbers) DrawNumbers(svg, map, shades, at.map);
  }
  svg.Rect("frame", at.map);
  DrawRowLabels(svg, at.rows, at.map);
  DrawColumnLabels(svg, at.columns, at.map);
  DrawAxisNames(svg, map, at.map, kFigureMargin, at.axis_top, at.width - kFigureMargin);
  key.Draw(svg, at.map.x, at.key_top);
  return std::move(svg).Finish();
}

std::string HeatmapGridSvg(std::span<const Heatmap> maps, int64_t maps_in_a_row,
                           const std::string& title, const std::vector<std::string>& notes,
                           const HeatmapOptions& options) {
  if (maps_in_a_row < 1) throw UsageError("a grid without columns");
  for (const Heatmap& map : maps) RequireFilled(map);
  const auto columns = static_cast<size_t>(maps_in_a_row);
  const size_t across = std::min(columns, maps.size());
  Grid grid = MakeGrid(maps, SideOf(maps, columns), options);
  AddLabels(maps, columns, &grid);
  const ColourKey key{grid.range, options.per_row, grid.masked};

  const double maps_width =
      grid.left + static_cast<double>(across) * (grid.width + kBetween) - kBetween;
  const double inner = std::max(maps_width, key.Width());
  const Heading heading(title, notes, std::max(inner, kHeadingWidth));
  const double width = std::ceil(std::max(inner, heading.Width()) + 2 * kFigureMargin);
  const double top = kFigureMargin + heading.Height();
  const double key_top = top + grid.AllRows();
  const double height = std::ceil(key_top + ColourKey::kHeight);

  SvgWriter svg(width, height, title.empty() ? "heat maps" : title);
  DefineHatch(svg);
  heading.Draw(svg, kFigureMargin, kFigureMargin);
  DrawPictures(svg, DrawMaps(svg, maps, grid, columns, top), width, height);
  key.Draw(svg, kFigureMargin, key_top);
  return std::move(svg).Finish();
}

}  // namespace folio
