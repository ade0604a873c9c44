#include "folio/plot/heatmap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "folio/base/check.h"
#include "folio/plot/colour.h"
#include "folio/plot/heading.h"
#include "folio/plot/heatmap_axes.h"
#include "folio/plot/shades.h"
#include "folio/plot/svg.h"

namespace folio {
namespace {

constexpr double kSide = 640;                // of a map of many cells, about
constexpr double kLargestCell = 44;          // pixels
constexpr int64_t kMostRects = 4000;         // cells
constexpr int64_t kMostTooltips = 1024;      // cells
constexpr int64_t kMostPictureCells = 1024;  // on each side
constexpr double kAxisFont = 12, kAxisLine = 18;
constexpr double kHeadingWidth = 480;  // at least, where there is text for it

// A cell's side where `cells` of them lie side by side, in whole pixels.
double CellSide(int64_t cells) {
  const double side = std::round(kSide / static_cast<double>(std::max<int64_t>(cells, 1)));
  return std::clamp(side, 1.0, kLargestCell);
}

// Square cells, but in maps of very unequal sides, which would have too thin ones.
void ChooseCells(const Shades& shades, double* width, double* height) {
  *width = CellSide(shades.columns);
  *height = CellSide(shades.rows);
  const int64_t longer = std::max(shades.rows, shades.columns);
  if (longer <= 4 * std::min(shades.rows, shades.columns)) *width = *height = CellSide(longer);
}

std::string CellName(const std::string& axis, const char* other, int64_t index,
                     const std::vector<std::string>& labels) {
  const std::string label = labels.empty() ? "" : " " + labels[static_cast<size_t>(index)];
  return fmt::format("{} {}{}", axis.empty() ? other : axis, index, label);
}

std::vector<std::string> Tooltips(const Heatmap& map) {
  std::vector<std::string> tooltips;
  if (map.rows * map.columns > kMostTooltips) return tooltips;
  for (int64_t r = 0; r < map.rows; ++r) {
    for (int64_t c = 0; c < map.columns; ++c) {
      tooltips.push_back(fmt::format("{}, {}: {:.4g}",
                                     CellName(map.row_axis, "row", r, map.row_labels),
                                     CellName(map.column_axis, "column", c, map.column_labels),
                                     map.values[static_cast<size_t>(r * map.columns + c)]));
    }
  }
  return tooltips;
}

void DrawAxisNames(SvgWriter& svg, const Heatmap& map, const MapBox& box, double left, double top,
                   double right) {
  // A name longer than its side may use the empty corner beside it.
  const double width = TextWidth(map.column_axis, kAxisFont);
  if (!map.column_axis.empty()) {
    const bool inside = width <= box.width;
    svg.Text(FitText(map.column_axis, kAxisFont, right - box.x),
             {{"class", "muted"},
              {"x", inside ? box.x + box.width / 2 : box.x},
              {"y", top + kAxisFont},
              {"font-size", kAxisFont},
              {"text-anchor", inside ? "middle" : "start"}});
  }
  if (!map.row_axis.empty()) {
    const bool inside = TextWidth(map.row_axis, kAxisFont) <= box.height;
    const double y = inside ? box.y + box.height / 2 : box.y + box.height;
    svg.Text(FitText(map.row_axis, kAxisFont, box.y + box.height - top),
             {{"class", "muted"},
              {"transform", fmt::format("translate({} {}) rotate(-90)", SvgNumber(left + kAxisFont),
                                        SvgNumber(y))},
              {"font-size", kAxisFont},
              {"text-anchor", inside ? "middle" : "start"}});
  }
}

std::string NoCells(const Heatmap& map, const std::vector<std::string>& notes) {
  const Heading heading(map.title, notes, kHeadingWidth);
  const double width = std::max(heading.Width() + 2 * kFigureMargin, 200.0);
  SvgWriter svg(width, heading.Height() + 60, map.title);
  heading.Draw(svg, kFigureMargin, kFigureMargin);
  svg.Text("no data", {{"class", "muted"}, {"x", kFigureMargin}, {"y", heading.Height() + 40}});
  return std::move(svg).Finish();
}

// Where everything is.
struct Layout {
  Heading heading;
  CellLabels rows, columns;
  MapBox map;
  double cell_width, cell_height;
  double axis_top;  // of the columns' name
  double key_top;
  double width, height;
};

Layout LayOut(const Heatmap& map, const Shades& shades, const ColourKey& key,
              const std::vector<std::string>& notes) {
  MapBox box;
  double cell_width = 0, cell_height = 0;
  ChooseCells(shades, &cell_width, &cell_height);
  box.width = cell_width * static_cast<double>(shades.columns);
  box.height = cell_height * static_cast<double>(shades.rows);
  const CellLabels rows =
      CellLabels::OfRows(map.row_labels, box.height / static_cast<double>(map.rows));
  const CellLabels columns =
      CellLabels::OfColumns(map.column_labels, box.width / static_cast<double>(map.columns));

  const double row_name = map.row_axis.empty() ? 0 : kAxisLine;
  const double column_name = map.column_axis.empty() ? 0 : kAxisLine;
  box.x = std::ceil(kFigureMargin + row_name + std::max(rows.Depth(), columns.Overhang()));
  const double beside_key = box.x + std::max(box.width + columns.Overhang(), key.Width());
  const double named = box.x + std::min(TextWidth(map.column_axis, kAxisFont), kHeadingWidth);
  double right = std::max(beside_key, named);
  Heading heading(map.title, notes, std::max(kHeadingWidth, right - kFigureMargin));
  right = std::max(right, kFigureMargin + heading.Width());
  const double axis_top = kFigureMargin + heading.Height();
  box.y = std::ceil(axis_top + column_name + std::max(columns.Depth(), rows.Overhang()));
  const double key_top = box.y + box.height + rows.Overhang() + kFigureMargin;
  return {.heading = std::move(heading),
          .rows = rows,
          .columns = columns,
          .map = box,
          .cell_width = cell_width,
          .cell_height = cell_height,
          .axis_top = axis_top,
          .key_top = key_top,
          .width = std::ceil(right + kFigureMargin),
          .height = std::ceil(key_top + ColourKey::kHeight)};
}

std::string DrawMap(const Heatmap& map, const HeatmapOptions& options,
                    const std::vector<std::string>& notes) {
  if (map.values.empty()) return NoCells(map, notes);
  HeatRange range = RangeOf(map, options);
  if (options.per_row) range.full = 1;
  Shades shades = ShadesOf(map, range, options.per_row);
  const bool picture = map.rows * map.columns > kMostRects;
  if (picture) shades = Pooled(std::move(shades), kMostPictureCells);
  const ColourKey key{range, MeaningOf(range, options.per_row ? "row" : ""), shades.AnyMasked()};
  const Layout at = LayOut(map, shades, key, notes);

  SvgWriter svg(at.width, at.height, map.title.empty() ? "heat map" : map.title);
  DefineHatch(svg);
  at.heading.Draw(svg, kFigureMargin, kFigureMargin);
  if (picture) {
    ShadePictures pictures;
    pictures.Add(shades, at.map.x, at.map.y, std::lround(at.cell_width),
                 std::lround(at.cell_height));
    pictures.Draw(svg, at.width, at.height);
  } else {
    DrawCells(svg, shades, at.map, Tooltips(map));
    if (options.numbers) {
      DrawNumbers(svg, NumbersThatFit(map, at.cell_width, at.cell_height), shades, at.map);
    }
  }
  svg.Element("rect", {{"class", "frame"},
                       {"x", at.map.x},
                       {"y", at.map.y},
                       {"width", at.map.width},
                       {"height", at.map.height}});
  at.rows.DrawLeft(svg, at.map);
  at.columns.DrawAbove(svg, at.map);
  DrawAxisNames(svg, map, at.map, kFigureMargin, at.axis_top, at.width - kFigureMargin);
  key.Draw(svg, at.map.x, at.key_top);
  return std::move(svg).Finish();
}

}  // namespace

Heatmap WithoutFirstColumn(const Heatmap& map, double* mean_share) {
  FOLIO_CHECK(map.columns >= 1, "there is no first column");
  FOLIO_CHECK(map.values.size() == static_cast<size_t>(map.rows * map.columns),
              "the values do not fill the map");
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
  for (const auto* labels : {&map.row_labels, &map.column_labels}) {
    const int64_t cells = labels == &map.row_labels ? map.rows : map.columns;
    FOLIO_CHECK(labels->empty() || static_cast<int64_t>(labels->size()) == cells,
                "not one label for each row or column");
  }
  std::vector<std::string> notes;
  if (!map.caption.empty()) notes.push_back(map.caption);
  if (!options.set_first_aside || map.columns == 0) return DrawMap(map, options, notes);
  double share = 0;
  const Heatmap rest = WithoutFirstColumn(map, &share);
  notes.push_back(fmt::format("first column set aside: {:.0f} % of a row on average", share * 100));
  return DrawMap(rest, options, notes);
}

}  // namespace folio
