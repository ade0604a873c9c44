#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace folio {

struct Tick;  // svg.h

enum class HeatScale { kLinear, kSqrt, kLog };

// A matrix to be drawn, rows downward. NaN (and infinity) is "masked": hatched.
struct Heatmap {
  std::string title = {};    // above it
  std::string caption = {};  // below the title, smaller
  int64_t rows = 0, columns = 0;
  std::vector<float> values = {};                                // (rows, columns)
  std::vector<std::string> row_labels = {}, column_labels = {};  // none, or one for each
  std::string row_axis = {}, column_axis = {};                   // "query", "key"
};

struct HeatmapOptions {
  // How values (from 0 on) become colour; kLog covers four decades. Signed values are always drawn
  // linearly, from 0 in two colours.
  HeatScale scale = HeatScale::kSqrt;
  bool per_row = false;             // each row's largest value is full colour
  std::optional<double> full = {};  // the value of full colour; if not given, not positive or not
                                    // finite the largest, or its double where all are about equal
  bool numbers = true;              // in the cells, where they fit
};

// A map whose values or labels do not fill it is a kUsage Error in all that follows.

// Each row without its first column and divided by what is left (a row with nothing left is
// masked), and the mean share of the first column, row 0 not counted.
Heatmap WithoutFirstColumn(const Heatmap& map, double* mean_share);

// Returns how many of `cells` in a row one of at most `most` stands for; at least 1.
int64_t PoolingStep(int64_t cells, int64_t most);
// The map in cells of down x across, each the value of the largest size of what it stands for
// (masked where all of it is), so that single strong cells stay. Labels are left out unless all
// cells stay.
Heatmap Pooled(const Heatmap& map, int64_t down, int64_t across);

// A range says how the values of a map become shades.
struct HeatRange {
  HeatScale scale = HeatScale::kSqrt;
  bool is_signed = false;  // then drawn linearly
  double full = 1;         // the value of shade 1; positive
};
// Returns a range with the options' scale and `full`, else the largest of the maps' values in size,
// or 1 if all are 0. Signed if any value is negative.
HeatRange RangeOf(std::span<const Heatmap> maps, const HeatmapOptions& options);
// Returns a shade in [0,1], or [-1,1] for a signed range; NaN where `value` is not finite.
double Shade(double value, const HeatRange& range);
// The values where a key has marks, rising, none outside of the range.
std::vector<Tick> KeyTicks(const HeatRange& range);

// One map with labels and a colour key, as a complete SVG document. Maps of more than a few
// thousand cells are drawn as one embedded picture, in which several cells share a pixel where a
// side has more than 1024 (the largest shade stays), and labels are thinned to those that fit. Zero
// looks like the page, in light and dark mode. No cells are "no data".
std::string HeatmapSvg(const Heatmap& map, const HeatmapOptions& options);

// Many small maps in rows of `columns`, each with its title and caption, below a title and notes;
// one scale and one colour key for all, so that a weak map looks weak. Where the cells of all maps
// are large enough for a label each, which those of labelled maps of at most 32 rows and columns
// are made to be in a row of few, the first map of a row has them for all, unless the row above has
// the same. Maps of more than 96 rows or columns are pooled to at most that many: of the cells that
// become one the largest shade stays.
std::string HeatmapGridSvg(std::span<const Heatmap> maps, int64_t columns, const std::string& title,
                           const std::vector<std::string>& notes, const HeatmapOptions& options);

}  // namespace folio
