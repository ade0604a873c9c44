#pragma once

#include <span>
#include <string>
#include <vector>

namespace folio {

// One line. Points that are not finite (or not positive on a logarithmic axis, or above 1e300 in
// size) are gaps. Few points are drawn as dots too.
struct Series {
  std::string label;  // "" has no place in the legend
  std::vector<double> x = {}, y = {};
  bool faint = false;   // in the background: raw values behind a mean
  bool dashed = false;  // a goal, a baseline
  int colour = -1;      // lines with the same one look alike; their place in the list if negative
};

struct CurvesOptions {
  std::string title = {}, x_label = {}, y_label = {};
  double width = 800, height = 480;  // pixels, at least 200 x 150
  bool log_x = false, log_y = false;
};

// Line chart as a complete SVG document below 200 KB whatever the number of points (for up to some
// dozen series). Series differ in colour and, from the eighth on, in dashes; one that lies on
// another is dashed, so that both are seen. Throws a kUsage Error for a figure that is too small,
// and where x and y of a series are not equally long.
std::string CurvesSvg(std::span<const Series> series, const CurvesOptions& options);

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

// Several line charts over one x axis' range in one SVG document with one legend for all, below 200
// KB whatever the number of points.
std::string PanelsSvg(std::span<const Panel> panels, const PanelsOptions& options);

}  // namespace folio
