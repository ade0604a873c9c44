#pragma once

#include <span>
#include <string>
#include <vector>

namespace folio {

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
// density is a shade, as an SVG document.
std::string ScatterSvg(std::span<const ScatterPoint> points, const ScatterOptions& options);

}  // namespace folio
