#pragma once

#include <span>
#include <string>
#include <vector>

#include "folio/plot/chart.h"
#include "folio/plot/svg.h"

namespace folio {

// The labelled lines of a figure, each label once, in rows.
class Legend {
 public:
  // In rows of at most `width`, and at most `max_rows`; the last entry then says how many are left
  // out.
  Legend(std::span<const Series> series, double width, int max_rows);

  double Height() const;                                // 0 if there is nothing
  void Draw(SvgWriter& svg, double x, double y) const;  // its top left corner

 private:
  struct Entry {
    std::string label;
    LineLook look;  // without classes: no line
    double x;
    int row;
  };

  std::vector<Entry> entries_;
};

}  // namespace folio
