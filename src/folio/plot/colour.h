#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "folio/plot/heatmap.h"
#include "folio/plot/svg.h"
#include "folio/plot/ticks.h"

namespace folio {

// Areas of class "plus" (values above 0) and "minus" (below), drawn with an opacity of |shade|: the
// blue and the vermilion of Okabe and Ito, darkened where the page is light, lightened where it is
// dark, so that the colour of a shade is equally far from the page in both. Text on them is of
// class "on-full" from this shade on and "on-pale" below; both are readable in both modes.
inline constexpr double kFullShade = 0.72;

std::string_view AreaClass(double shade);
std::string_view TextOnClass(double shade);

// How the values of a map become shades.
struct HeatRange {
  HeatScale scale = HeatScale::kSqrt;
  bool is_signed = false;  // then drawn linearly
  double full = 1;         // the value of shade 1; positive
};

// The options' `full`, if it is one that a scale can have.
std::optional<double> GivenFull(const HeatmapOptions& options);

// With the options' scale and `full`, else the largest of the map's values in size, or 1 if all are
// 0. Signed if any value is negative.
HeatRange RangeOf(const Heatmap& map, const HeatmapOptions& options);

// In [0,1], or [-1,1] for a signed range; NaN where `value` is not finite.
double Shade(double value, const HeatRange& range);

// The values where a key has marks, rising, none outside of the range.
std::vector<Tick> KeyTicks(const HeatRange& range);

// What a key says of a range; `of`: the colours are shares of the largest value of each such thing.
std::string MeaningOf(const HeatRange& range, std::string_view of);

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

}  // namespace folio
