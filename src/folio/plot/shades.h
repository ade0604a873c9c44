#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "folio/plot/colour.h"
#include "folio/plot/svg.h"

namespace folio {

// A map ready to be drawn: what Shade gives of each value.
struct Shades {
  int64_t rows = 0, columns = 0;
  std::vector<float> values = {};  // (rows, columns); NaN is masked

  bool AnyMasked() const;
};

// `per_row`: each row by the range of its own, of the same kind as `range`.
Shades ShadesOf(const Heatmap& map, const HeatRange& range, bool per_row);

// At most `max_side` rows and columns: of the cells that become one the shade of the largest size
// stays; masked only if all are.
Shades Pooled(Shades shades, int64_t max_side);

struct MapBox {
  double x = 0, y = 0, width = 0, height = 0;
};

// A rectangle for each cell that has colour, with `tooltips` (none, or one for each cell).
// REQUIRES: DefineHatch if any is masked.
void DrawCells(SvgWriter& svg, const Shades& shades, const MapBox& box,
               const std::vector<std::string>& tooltips);

// Maps drawn as pictures, for those of many cells. A picture is the mask through which an area of
// colour is seen, so that it follows light and dark mode. Each cell is enlarged to the whole pixels
// that it covers, because not every program draws enlarged pictures with sharp edges.
class ShadePictures {
 public:
  // `cell_width` and `cell_height` in pixels, at least 1.
  void Add(const Shades& shades, double x, double y, int64_t cell_width, int64_t cell_height);

  // Everything that was added, inside of (0, 0, width, height). To be called once, REQUIRES
  // DefineHatch if any cell is masked.
  void Draw(SvgWriter& svg, double width, double height) const;

 private:
  struct Picture {
    MapBox box;
    std::string png;
  };
  std::vector<Picture> plus_, minus_, masked_;
};

}  // namespace folio
