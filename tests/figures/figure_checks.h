#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/figures/render.h"

namespace folio {

// Lists the faults of a figure, a line each; "" if it is sound: a well-formed SVG document whose
// ids are unique and whose references lead to them, that needs no other file and knows dark mode;
// drawn at the size that it declares and blank in neither mode; with every one of `labels` in its
// texts; where no text lies on another and nothing reaches beyond the border. What is drawn is seen
// on the pixels of rsvg-convert. REQUIRES: WhyNoRenderer() is "".
std::string CheckFigure(std::string_view svg, const std::vector<std::string>& labels);

// The same, of every figure of an HTML page, which must have some; each of `labels` may be in any
// of them. Ids must be unique in the whole page.
std::string CheckPage(std::string_view html, const std::vector<std::string>& labels);

// The SVG documents inside of an HTML page.
std::vector<std::string> FiguresOf(std::string_view html);

}  // namespace folio
