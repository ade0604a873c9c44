#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "folio/plot/svg.h"

namespace folio {

// The margin of the figures of this room.
inline constexpr double kFigureMargin = 16;
// How much wider bold letters are.
inline constexpr double kBoldWidth = 1.15;

// Title and smaller lines of text at the top of a figure, in lines of at most `width`.
class Heading {
 public:
  Heading(std::string_view title, const std::vector<std::string>& notes, double width);

  double Width() const { return width_; }
  double Height() const;  // with the space below; 0 if there is no text
  void Draw(SvgWriter& svg, double x, double y) const;  // its top left corner

 private:
  std::vector<std::string> title_, notes_;
  double width_ = 0;
};

}  // namespace folio
