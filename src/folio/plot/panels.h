#pragma once

#include <span>
#include <string>
#include <vector>

#include "folio/plot/curves.h"

namespace folio {

struct Panel {
  std::vector<Series> series;  // lines of one thing have one colour, and one label, in every panel
  CurvesOptions options;       // title, labels, axes; the size is the whole figure's to give
};

struct PanelsOptions {
  std::string title = {};
  std::string note = {};  // below the title, smaller
  int columns = 2;
  double panel_width = 520, panel_height = 300;
};

// Several line charts in one SVG document with one legend for all, below 200 KB whatever the number
// of points.
std::string PanelsSvg(std::span<const Panel> panels, const PanelsOptions& options);

}  // namespace folio
