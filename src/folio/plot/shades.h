#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "folio/plot/heatmap.h"
#include "folio/plot/svg.h"

namespace folio {

// Areas of class "plus" (values above 0) and "minus" (below), drawn with an opacity of |shade|: the
// blue and the vermilion of Okabe and Ito, darkened where the page is light, lightened where it is
// dark, so that the colour of a shade is equally far from the page in both. Text on them is of
// class "on-full" from this shade on and "on-pale" below; both are readable in both modes.
inline constexpr double kFullShade = 0.72;

std::string_view AreaClass(double shade);
std::string_view TextOnClass(double shade);

// A range says how the values of a map become shades.
struct HeatRange {
  HeatScale scale = HeatScale::kSqrt;
  bool is_signed = false;  // then drawn linearly
  double full = 1;         // the value of shade 1; positive
};

// The options' `full`, if it is one that a scale can have.
std::optional<double> GivenFull(const HeatmapOptions& options);

// Returns a range with the options' scale and `full`, else the largest of the map's values in size,
// or 1 if all are 0. Signed if any value is negative.
HeatRange RangeOf(std::span<const Heatmap> maps, const HeatmapOptions& options);

// Returns a shade in [0,1], or [-1,1] for a signed range; NaN where `value` is not finite.
double Shade(double value, const HeatRange& range);

// The values where a key has marks, rising, none outside of the range.
std::vector<Tick> KeyTicks(const HeatRange& range);

// A key names a range's scale and the value of full colour; `per_row`: the colours are
// shares of each row's largest value.
std::string MeaningOf(const HeatRange& range, bool per_row);

// The colours of a range from left to right with ticks below, and "masked" behind it.
struct ColourKey {
  HeatRange range;
  std::string meaning = {};  // of the colours, see MeaningOf
  bool masked = false;       // the figure has masked cells; REQUIRES DefineHatch

  static constexpr double kHeight = 48;
  double Width() const;
  void Draw(SvgWriter& svg, double x, double y) const;
};

// The pattern that "url(#hatch)" fills with.
void DefineHatch(SvgWriter& svg);

// A map ready to be drawn: what Shade gives of each value.
struct Shades {
  int64_t rows = 0, columns = 0;
  std::vector<float> values = {};  // (rows, columns); NaN is masked

  bool AnyMasked() const;
};

// `per_row`: each row by the range of its own, of the same kind as `range`.
Shades ShadesOf(const Heatmap& map, const HeatRange& range, bool per_row);

// Returns at most `max_side` rows and columns: of the cells that become one the shade of the
// largest size stays; masked only if all are.
Shades Pooled(Shades shades, int64_t max_side);

// A rectangle for each cell that has colour, with `tooltips` (none, or one for each cell).
// REQUIRES: DefineHatch if any is masked.
void DrawCells(SvgWriter& svg, const Shades& shades, const PlotBox& box,
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
    PlotBox box;
    std::string png;
  };
  std::vector<Picture> plus_, minus_, masked_;
};

}  // namespace folio
