#pragma once

#include <span>
#include <string>
#include <vector>

#include "folio/plot/curves.h"
#include "folio/plot/reduce.h"
#include "folio/plot/svg.h"
#include "folio/plot/ticks.h"

namespace folio {

// How a line is drawn: classes, the pattern of its dashes ("none" without), and so on.
struct LineLook {
  std::string classes, dashes;
  double opacity = 1, width = 1;
};

// The look of the line at `index` of a list.
LineLook LookOf(const Series& series, size_t index);

struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;
};

// One pair of axes with its lines, in a part of a figure, without title and legend.
class Chart {
 public:
  // All of the chart, its labels too, lies inside of `box`. Title and size of `options` do not
  // matter.
  Chart(std::span<const Series> series, const CurvesOptions& options, Box box);

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
    std::vector<Tick> Ticks(double pixels_each) const;
  };
  struct Line {
    LineLook look;
    bool faint, dotted;
    std::vector<PlotPoint> points;
  };

  bool FitRanges(std::span<const Series> series);
  Line MakeLine(const Series& series, size_t index) const;
  void DrawAxes(SvgWriter& svg) const;
  void DrawLine(SvgWriter& svg, const Line& line) const;

  std::string x_label_, y_label_;
  Box box_;
  Axis x_, y_;
  std::vector<Tick> x_ticks_, y_ticks_;
  std::vector<Line> lines_;
  bool any_ = false;  // whether there is anything to be seen
};

// Draws charts, with no more points than keep a figure below 200 KB.
void DrawCharts(SvgWriter& svg, std::span<Chart> charts);

}  // namespace folio
