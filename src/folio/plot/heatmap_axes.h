#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "folio/plot/shades.h"
#include "folio/plot/svg.h"

namespace folio {

// The names of the rows, left of a map, or of the columns, above it: cut where they are long,
// turned where they are too close, thinned to those that fit.
class CellLabels {
 public:
  static constexpr double kCell = 14;  // the smallest cell that each has a label of its own

  CellLabels() = default;
  // `cell` is the height of a row or the width of a column.
  static CellLabels OfRows(const std::vector<std::string>& labels, double cell);
  static CellLabels OfColumns(const std::vector<std::string>& labels, double cell);

  double Depth() const { return depth_; }  // the room that they take beside the map
  double Overhang() const {
    return overhang_;
  }  // how far they reach beyond its first and last cell
  void DrawLeft(SvgWriter& svg, const MapBox& map) const;
  void DrawAbove(SvgWriter& svg, const MapBox& map) const;

 private:
  void Keep(const std::vector<std::string>& labels, int64_t step);

  std::vector<std::string> texts_;  // one for each cell, "" where none is drawn
  bool turned_ = false;
  double depth_ = 0, overhang_ = 0;
};

// The values in the cells of a map, where all fit; else empty. One for each cell, "" where masked.
struct CellNumbers {
  std::vector<std::string> texts = {};
  double font_size = 0;
};
CellNumbers NumbersThatFit(const Heatmap& map, double cell_width, double cell_height);
void DrawNumbers(SvgWriter& svg, const CellNumbers& numbers, const Shades& shades,
                 const MapBox& map);

}  // namespace folio
