#pragma once

#include <span>
#include <string>
#include <vector>

namespace folio {

// Charts with axes: lines, points, bars.

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

struct ScatterPoint {
  double x = 0, y = 0;
  std::string label = {};
  int colour = 0;  // class "s0" to "s6"
};

struct ScatterOptions {
  std::string title = {}, x_label = {}, y_label = {};
  double width = 800, height = 600;
  std::vector<std::string> groups = {};  // names of the colours, from 0 on; the legend has those
                                         // that some point is of
  std::vector<ScatterPoint> cloud = {};  // many more, of which only the density is shown
};

// Points with labels, which are left out where they would cover another, before a cloud whose
// density is a shade, as an SVG document. Throws a kUsage Error for a figure that is too small.
std::string ScatterSvg(std::span<const ScatterPoint> points, const ScatterOptions& options);

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

// Exponential mean with bias correction (D. P. Kingma, J. Ba, arXiv:1412.6980, section 3): the
// first value is y[0], and `weight` in [0,1) is how much of the past each value keeps. Values that
// are not finite stay as they are and do not enter the mean.
std::vector<double> Smooth(std::span<const double> y, double weight);

struct PlotPoint {
  double x, y;  // pixels; not finite where there is no value
};

// A line's points, in pixels, reduced to what can be seen: of consecutive points within one column
// of `column` pixels the first, the lowest, the highest and the last stay, in their order. Points
// whose x does not grow are also merged by number so that at most about 4000 groups remain. A gap
// stays where no finite point follows it in its group, as one point that is not finite.
// REQUIRES: column > 0.
std::vector<PlotPoint> ReduceLine(std::span<const PlotPoint> points, double column);

}  // namespace folio
