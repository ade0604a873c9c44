#pragma once

#include <span>
#include <string>

namespace folio {

struct Bar {
  std::string label;
  double value = 0;
  std::string note = {};  // behind the bar; the value in digits if empty
  bool muted = false;     // cut off, not chosen
};

struct BarsOptions {
  std::string title = {};
  double width = 640;
  double full = 0;  // the value of the longest bar; the largest if 0
};

// Horizontal bars from 0, one below the other, over an axis with numbers, as an SVG document.
// Negative ones go left.
std::string BarsSvg(std::span<const Bar> bars, const BarsOptions& options);

}  // namespace folio
