#pragma once

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "folio/plot/curves.h"
#include "folio/plot/lines.h"
#include "folio/plot/svg.h"
#include "folio/plot/ticks.h"

namespace folio {

inline constexpr double kChartFont = 12;

// The look of a line: classes, the pattern of its dashes ("none" without), and so on.
struct LineLook {
  std::string classes, dashes;
  double opacity = 1, width = 1;
};

// The look of the line at `index` of a list.
LineLook LookOf(const Series& series, size_t index);

// The x that axes have in common; empty at first.
struct XRange {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void Hold(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

// The box in which a chart lies, in pixels.
struct ChartBox {
  double left = 0, top = 0, right = 0, bottom = 0;
};

// One pair of axes with its lines, in a part of a figure, without title and legend.
class Chart {
 public:
  // All of the chart, its labels too, lies inside of `box`. Title and size of `options` do not
  // matter. The x axis reaches over `x_range` too.
  Chart(std::span<const Series> series, const CurvesOptions& options, ChartBox box,
        const XRange& x_range = {});

  // Points that are drawn.
  size_t points() const;
  // Merges points within columns of so many pixels.
  void Reduce(double column);
  void Draw(SvgWriter& svg) const;

 private:
  struct Axis {
    bool log = false;
    bool whole = false;                    // all data are whole numbers, and so are the ticks
    double low = 0, high = 1;              // of the data, padded; logarithms if log
    double pixel_low = 0, pixel_high = 1;  // where they lie

    double Scaled(double value) const;
    bool Shows(double value) const;
    double Pixel(double value) const;
    double Middle() const { return (pixel_low + pixel_high) / 2; }
    std::vector<Tick> Ticks(double pixels_each) const;
  };
  struct Line {
    LineLook look;
    bool faint, dotted;
    std::vector<PlotPoint> points;
    double dot = 3;  // by its width
  };

  bool FitRanges(std::span<const Series> series, const XRange& x_range);
  Line MakeLine(const Series& series, size_t index) const;  // with all points
  // Dashes for lines that would hide others.
  void ShowCovered();
  void DrawAxes(SvgWriter& svg) const;
  void DrawLine(SvgWriter& svg, const Line& line) const;

  std::string x_label_, y_label_;
  ChartBox box_;
  Axis x_, y_;
  std::vector<Tick> x_ticks_, y_ticks_;
  std::vector<Line> lines_;
  bool any_ = false;  // whether there is anything to be seen
};

}  // namespace folio
