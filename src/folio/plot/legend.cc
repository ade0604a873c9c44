#include "folio/plot/legend.h"

#include <fmt/format.h>

#include <algorithm>

namespace folio {
namespace {

constexpr double kFont = 12;
constexpr double kRow = 20;     // height of a row
constexpr double kLine = 20;    // length of an entry's line
constexpr double kSwatch = 26;  // that and its gap to the label
constexpr double kGap = 16;     // between entries
constexpr double kMore = 80;    // room for "+ 99 more"

}  // namespace

Legend::Legend(std::span<const Series> series, double width, int max_rows) {
  double x = 0;
  int row = 0;
  size_t left_out = 0;
  for (size_t i = 0; i < series.size(); ++i) {
    if (series[i].label.empty()) continue;
    const std::string label = FitText(series[i].label, kFont, width - kSwatch - kMore);
    const double entry_width = kSwatch + TextWidth(label, kFont) + kGap;
    const double limit = width - (row + 1 == max_rows ? kMore : 0);
    if (x > 0 && x + entry_width > limit && left_out == 0) {
      if (row + 1 < max_rows) {
        ++row;
        x = 0;
      } else {
        left_out = 1;
        continue;
      }
    }
    if (left_out > 0) {
      ++left_out;
      continue;
    }
    entries_.push_back({label, LookOf(series[i], i), x, row});
    x += entry_width;
  }
  if (left_out > 0) entries_.push_back({fmt::format("+ {} more", left_out), {}, x, row});
}

double Legend::Height() const {
  return entries_.empty() ? 0 : (entries_.back().row + 1) * kRow;
}

void Legend::Draw(SvgWriter& svg, double x, double y) const {
  for (const Entry& entry : entries_) {
    const double left = x + entry.x, middle = y + entry.row * kRow + kRow / 2;
    double text_x = left;
    if (!entry.look.classes.empty()) {
      svg.Element(
          "path",
          {{"class", entry.look.classes},
           {"stroke-width", std::max(entry.look.width, 1.5)},
           {"stroke-opacity", entry.look.opacity},
           {"stroke-dasharray", entry.look.dashes},
           {"d", fmt::format("M{} {}h{}", SvgNumber(left), SvgNumber(middle), SvgNumber(kLine))}});
      text_x += kSwatch;
    }
    svg.Text(entry.label, {{"class", "ink"}, {"x", text_x}, {"y", middle + kFont * 0.35}});
  }
}

}  // namespace folio
