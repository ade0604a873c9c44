#pragma once

#include <span>
#include <string>
#include <vector>

namespace folio {

// Charts with axes: lines, points, bars.

// One line. Points that are not finite (or not positive on a logarithmic axis, or above 1e300 in
// size) are gaps. If there are few points, they are drawn as dots too.
struct Series {
  std::string label;  // "": not in the legend
  std::vector<double> x = {}, y = {};
  bool faint = false;   // in the background, such as raw values behind a mean
  bool dashed = false;  // for a goal or a baseline
  int colour = -1;      // lines with equal numbers look alike; if negative, their index in the list
};

struct CurvesOptions {
  std::string title = {}, x_label = {}, y_label = {};
  double width = 800, height = 480;  // pixels, at least 200 x 150
  bool log_x = false, log_y = false;
};

// Line chart as a complete SVG document below 200 KB whatever the number of points (for up to some
// dozen series). Series differ in colour and, from the eighth on, in dashes; one that covers
// another is dashed, so that both are visible. Throws a kUsage Error if the figure is too small, or
// if x and y of a series differ in length.
std::string CurvesSvg(std::span<const Series> series, const CurvesOptions& options);

struct Panel {
  std::vector<Series> series;  // lines with one label have one colour in every panel
  CurvesOptions options;       // title, labels, axes; its size is ignored
};

struct PanelsOptions {
  std::string title = {};
  std::string note = {};  // below the title, smaller
  int columns = 2;
  double panel_width = 520, panel_height = 300;
};

// Several line charts over a common x range in one SVG document with one legend, below 200 KB
// whatever the number of points.
std::string PanelsSvg(std::span<const Panel> panels, const PanelsOptions& options);

struct ScatterPoint {
  double x = 0, y = 0;
  std::string label = {};
  int colour = 0;  // class "s0" to "s6"
};

struct ScatterOptions {
  std::string title = {}, x_label = {}, y_label = {};
  double width = 800, height = 600;
  std::vector<std::string> groups = {};  // names of the colours from 0 on; the legend has those
                                         // that occur
  std::vector<ScatterPoint> cloud = {};  // many more points, of which only the density is shown
};

// An SVG document of points with labels, which are left out where they would cover another, before
// a cloud whose density is shown as a shade. Throws a kUsage Error if the figure is too small.
std::string ScatterSvg(std::span<const ScatterPoint> points, const ScatterOptions& options);

struct Bar {
  std::string label;
  double value = 0;
  std::string note = {};  // behind the bar; if empty, the value in digits
  bool muted = false;     // for values that were cut off, not chosen
};

struct BarsOptions {
  std::string title = {};
  double width = 640;
  double full = 0;  // the value of the longest bar; if 0, the largest value
};

// Horizontal bars from 0, one below the other, over an axis with numbers, as an SVG document.
// Negative bars go left.
std::string BarsSvg(std::span<const Bar> bars, const BarsOptions& options);

// Exponential mean with bias correction (D. P. Kingma, J. Ba, arXiv:1412.6980, section 3): the
// first value is y[0], and `weight` in [0,1) is the weight of the past. Values that are not finite
// stay unchanged and do not enter the mean.
std::vector<double> Smooth(std::span<const double> y, double weight);

struct PlotPoint {
  double x, y;  // pixels; not finite if there is no value
};

// A line's points, in pixels, reduced to the visible ones: of consecutive points within one column
// of `column` pixels the first, the lowest, the highest and the last are kept in order. Points
// whose x does not grow are also merged by number so that at most about 4000 groups remain. A gap
// stays, as one point that is not finite, if no finite point follows it in its group. REQUIRES:
// column > 0.
std::vector<PlotPoint> ReduceLine(std::span<const PlotPoint> points, double column);

}  // namespace folio
