#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace folio {

struct Tick;  // svg.h

enum class HeatScale { kLinear, kSqrt, kLog };

// A matrix to draw, rows downward. NaN (and infinity) means "masked": hatched.
struct Heatmap {
  std::string title = {};    // above it
  std::string caption = {};  // below the title, smaller
  int64_t rows = 0, columns = 0;
  std::vector<float> values = {};                                // (rows, columns)
  std::vector<std::string> row_labels = {}, column_labels = {};  // empty, or one for each
  std::string row_axis = {}, column_axis = {};                   // "query", "key"
};

struct HeatmapOptions {
  // How values (from 0 on) become colours; kLog covers four decades. Signed values are always
  // linear, from 0 in two colours.
  HeatScale scale = HeatScale::kSqrt;
  bool per_row = false;             // each row's largest value is full colour
  std::optional<double> full = {};  // the value of full colour; if missing, not positive or not
                                    // finite, the largest value, or twice that if all are about
                                    // equal
  bool numbers = true;              // in the cells, if they fit
};

// All functions below throw a kUsage Error if values or labels of a map do not match its size.

// Each row without its first column and divided by the sum of the others (masked if that is 0), and
// the mean share of the first column over all rows but row 0.
Heatmap WithoutFirstColumn(const Heatmap& map, double* mean_share);

// Returns how many of `cells` cells in a row are pooled into one of at most `most`; at least 1.
int64_t PoolingStep(int64_t cells, int64_t most);
// The map with blocks of down x across cells pooled into one, which has the value of largest
// magnitude (masked if all are), so that single strong cells stay visible. Labels are left out
// unless nothing is pooled.
Heatmap Pooled(const Heatmap& map, int64_t down, int64_t across);

// Maps values to shades.
struct HeatRange {
  HeatScale scale = HeatScale::kSqrt;
  bool is_signed = false;  // true: drawn linearly
  double full = 1;         // the value of shade 1; positive
};
// Returns a range with the options' scale and `full`, else the largest magnitude in the maps, or 1
// if all values are 0. Signed if any value is negative.
HeatRange RangeOf(std::span<const Heatmap> maps, const HeatmapOptions& options);
// Returns a shade in [0,1], or [-1,1] for a signed range; NaN if `value` is not finite.
double Shade(double value, const HeatRange& range);
// The values of a key's marks in ascending order, all inside of the range.
std::vector<Tick> KeyTicks(const HeatRange& range);

// One map with labels and a colour key, as a complete SVG document. Maps of more than a few
// thousand cells are drawn as one embedded picture, in which several cells share a pixel if a side
// has more than 1024 (the largest shade is kept), and labels are thinned to those that fit. Zero
// has the page's colour, in light and dark mode. A map without cells shows "no data".
std::string HeatmapSvg(const Heatmap& map, const HeatmapOptions& options);

// Many small maps in rows of `columns`, each with its title and caption, below a title and notes;
// one scale and one colour key for all, so that a weak map looks weak. If the cells of all maps are
// large enough for labels, the first map of a row has them, unless the row above has the same;
// labelled maps of at most 32 rows and columns are enlarged for that if few are in a row. Maps of
// more than 96 rows or columns are pooled to at most that many, keeping the largest shade.
std::string HeatmapGridSvg(std::span<const Heatmap> maps, int64_t columns, const std::string& title,
                           const std::vector<std::string>& notes, const HeatmapOptions& options);

}  // namespace folio
