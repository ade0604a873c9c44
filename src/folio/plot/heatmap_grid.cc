#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "folio/base/check.h"
#include "folio/plot/colour.h"
#include "folio/plot/heading.h"
#include "folio/plot/heatmap.h"
#include "folio/plot/heatmap_axes.h"
#include "folio/plot/shades.h"
#include "folio/plot/svg.h"

namespace folio {
namespace {

constexpr int64_t kMostCells = 96;     // on each side of a map
constexpr int64_t kMostLabelled = 32;  // cells on a side that a map is made larger for
constexpr double kWidth = 960;         // of the maps of a row together, about
constexpr double kSmallest = 80, kLargest = 200, kThinnest = 16;  // a map's side, about
constexpr double kNarrowest = 48;                                 // a column
constexpr double kHeadingWidth = 480;
constexpr double kGap = 12;
constexpr double kTitleFont = 11, kTitleLine = 15, kCaptionFont = 10, kCaptionLine = 13;

// A map of the grid and the whole pixels that a cell of it covers.
struct Thumbnail {
  Shades shades;
  int64_t cell_width = 1, cell_height = 1;
  CellLabels left = {}, above = {};

  double Width() const { return static_cast<double>(shades.columns * cell_width); }
  double Height() const { return static_cast<double>(shades.rows * cell_height); }
};

int64_t Pixels(double side, int64_t cells) {
  return std::max<int64_t>(std::llround(side / static_cast<double>(cells)), 1);
}

// Square cells, but in maps that would be too thin.
Thumbnail MakeThumbnail(Shades shades, double side) {
  Thumbnail result{.shades = std::move(shades)};
  if (result.shades.values.empty()) return result;
  const int64_t longer = std::max(result.shades.rows, result.shades.columns);
  result.cell_width = result.cell_height = Pixels(side, longer);
  if (result.Width() < kThinnest) result.cell_width = Pixels(kThinnest, result.shades.columns);
  if (result.Height() < kThinnest) result.cell_height = Pixels(kThinnest, result.shades.rows);
  return result;
}

// What all maps have in common, and the maps.
struct Grid {
  std::vector<Thumbnail> maps;
  HeatRange range;
  bool masked = false;
  double width = kNarrowest, height = 0;  // of the largest map
  double title_height = 0, caption_height = 0;
  double left = 0, above = 0;  // room for labels

  double MapTop() const { return title_height + above; }
  double Pitch() const { return MapTop() + height + caption_height + kGap; }  // of rows
};

Grid MakeGrid(std::span<const Heatmap> maps, double side, const HeatmapOptions& options) {
  Grid grid;
  grid.range = {.scale = options.scale};
  for (const Heatmap& map : maps) grid.range.is_signed |= RangeOf(map, options).is_signed;
  grid.range.full = GivenFull(options).value_or(grid.range.full);
  if (options.per_row) grid.range.full = 1;
  for (const Heatmap& map : maps) {
    HeatRange range = RangeOf(map, options);
    range.is_signed = grid.range.is_signed;
    Thumbnail thumbnail =
        MakeThumbnail(Pooled(ShadesOf(map, range, options.per_row), kMostCells), side);
    grid.masked |= thumbnail.shades.AnyMasked();
    grid.width = std::max(grid.width, thumbnail.Width());
    grid.height = std::max(grid.height, thumbnail.Height());
    if (!map.title.empty()) grid.title_height = kTitleLine;
    if (!map.caption.empty()) grid.caption_height = kCaptionLine;
    grid.maps.push_back(std::move(thumbnail));
  }
  return grid;
}

void AddLabels(std::span<const Heatmap> maps, int64_t columns, Grid* grid) {
  const bool room = std::ranges::all_of(grid->maps, [](const Thumbnail& map) {
    return static_cast<double>(std::min(map.cell_width, map.cell_height)) >= CellLabels::kCell;
  });
  if (!room) return;
  for (size_t i = 0; i < maps.size(); ++i) {
    Thumbnail& map = grid->maps[i];
    map.above = CellLabels::OfColumns(maps[i].column_labels, static_cast<double>(map.cell_width));
    grid->above = std::max(grid->above, map.above.Depth());
    if (static_cast<int64_t>(i) % columns > 0) continue;
    map.left = CellLabels::OfRows(maps[i].row_labels, static_cast<double>(map.cell_height));
    grid->left = std::max(grid->left, map.left.Depth());
  }
}

// The side of a map in a row of so many; more for labels of few cells.
double SideOf(std::span<const Heatmap> maps, int64_t columns) {
  double side = std::clamp(kWidth / static_cast<double>(columns) - kGap, kSmallest, kLargest);
  for (const Heatmap& map : maps) {
    const int64_t cells = std::max(map.rows, map.columns);
    const bool labels = !map.row_labels.empty() || !map.column_labels.empty();
    if (labels && cells <= kMostLabelled) {
      side = std::max(side, static_cast<double>(cells) * CellLabels::kCell);
    }
  }
  return side;
}

std::vector<Heatmap> SetFirstAside(std::span<const Heatmap> maps, std::string* note) {
  std::vector<Heatmap> rest;
  double least = 1, most = 0, sum = 0;
  for (const Heatmap& map : maps) {
    double share = 0;
    rest.push_back(map.columns > 0 ? WithoutFirstColumn(map, &share) : map);
    least = std::min(least, share);
    most = std::max(most, share);
    sum += share;
  }
  if (!maps.empty()) {
    *note = fmt::format(
        "first column set aside: {:.0f} % of a row on average, {:.0f} to {:.0f} % by map",
        100 * sum / static_cast<double>(maps.size()), 100 * least, 100 * most);
  }
  return rest;
}

void DrawName(SvgWriter& svg, const std::string& text, const char* style, double x, double y,
              double font, double width) {
  if (text.empty()) return;
  svg.Text(FitText(text, font, width),
           {{"class", style}, {"x", x}, {"y", y + font}, {"font-size", font}});
}

void DrawMaps(SvgWriter& svg, std::span<const Heatmap> maps, const Grid& grid, int64_t columns,
              double top, ShadePictures* pictures) {
  for (size_t i = 0; i < maps.size(); ++i) {
    const int64_t below = static_cast<int64_t>(i) / columns;
    const auto row = static_cast<double>(below);
    const auto column = static_cast<double>(static_cast<int64_t>(i) % columns);
    const Thumbnail& map = grid.maps[i];
    const double x = kFigureMargin + grid.left + column * (grid.width + kGap);
    const double y = top + row * grid.Pitch(), map_top = y + grid.MapTop();
    DrawName(svg, maps[i].title, "ink", x, y, kTitleFont, grid.width);
    DrawName(svg, maps[i].caption, "muted", x, map_top + grid.height + 1, kCaptionFont, grid.width);
    if (map.shades.values.empty()) continue;
    pictures->Add(map.shades, x, map_top, map.cell_width, map.cell_height);
    const MapBox box{x, map_top, map.Width(), map.Height()};
    map.left.DrawLeft(svg, box);
    map.above.DrawAbove(svg, box);
    svg.Element("rect", {{"class", "frame"},
                         {"x", x},
                         {"y", map_top},
                         {"width", map.Width()},
                         {"height", map.Height()}});
  }
}

}  // namespace

std::string HeatmapGridSvg(std::span<const Heatmap> maps, int64_t columns, const std::string& title,
                           const HeatmapOptions& options) {
  FOLIO_CHECK(columns >= 1, "a grid without columns");
  std::vector<Heatmap> rest;
  std::vector<std::string> notes;
  if (options.set_first_aside) {
    rest = SetFirstAside(maps, &notes.emplace_back());
    maps = rest;
  }
  const auto across = std::min<int64_t>(columns, static_cast<int64_t>(maps.size()));
  Grid grid = MakeGrid(maps, SideOf(maps, columns), options);
  AddLabels(maps, columns, &grid);
  const bool each_map = !options.per_row && !GivenFull(options);
  const ColourKey key{grid.range,
                      MeaningOf(grid.range, options.per_row ? "row"
                                            : each_map      ? "map"
                                                            : ""),
                      grid.masked};

  const double maps_width = grid.left + static_cast<double>(across) * (grid.width + kGap) - kGap;
  const double inner = std::max(maps_width, key.Width());
  const Heading heading(title, notes, std::max(inner, kHeadingWidth));
  const double width = std::ceil(std::max(inner, heading.Width()) + 2 * kFigureMargin);
  const double top = kFigureMargin + heading.Height();
  const auto rows = (static_cast<int64_t>(maps.size()) + columns - 1) / columns;
  const double key_top = top + static_cast<double>(rows) * grid.Pitch();
  const double height = std::ceil(key_top + ColourKey::kHeight);

  SvgWriter svg(width, height, title.empty() ? "heat maps" : title);
  DefineHatch(svg);
  heading.Draw(svg, kFigureMargin, kFigureMargin);
  ShadePictures pictures;
  DrawMaps(svg, maps, grid, columns, top, &pictures);
  pictures.Draw(svg, width, height);
  key.Draw(svg, kFigureMargin, key_top);
  return std::move(svg).Finish();
}

}  // namespace folio
