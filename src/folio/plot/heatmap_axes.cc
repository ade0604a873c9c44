#include "folio/plot/heatmap_axes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace folio {
namespace {

constexpr double kFont = 11, kLine = CellLabels::kCell, kGap = 5, kMaxWidth = 130;
constexpr double kMiddle = 0.35;  // from the middle of a line of text to its base, in font sizes

// The least of 1, 2, 5, 10, 20, ... cells that hold `size`.
int64_t StepFor(double size, double cell) {
  for (int64_t power = 1;; power *= 10) {
    for (const int64_t factor : {1, 2, 5}) {
      if (static_cast<double>(factor * power) * cell >= size) return factor * power;
    }
  }
}

int Decimals(double largest) {
  return largest >= 100 ? 0 : largest >= 10 ? 1 : largest >= 0.1 ? 2 : largest >= 0.01 ? 3 : 4;
}

std::string CellNumber(double value, int decimals) {
  std::string text = fmt::format("{:.{}f}", std::abs(value), decimals);
  const bool zero = text.find_first_not_of("0.") == std::string::npos;
  return value < 0 && !zero ? "\xE2\x88\x92" + text : text;
}

}  // namespace

void CellLabels::Keep(const std::vector<std::string>& labels, int64_t step) {
  texts_.assign(labels.size(), "");
  for (size_t i = 0; i < labels.size(); i += static_cast<size_t>(step)) {
    texts_[i] = FitText(labels[i], kFont, kMaxWidth);
  }
}

CellLabels CellLabels::OfRows(const std::vector<std::string>& labels, double cell) {
  CellLabels result;
  result.Keep(labels, StepFor(kLine, cell));
  for (const std::string& text : result.texts_) {
    if (!text.empty()) result.depth_ = std::max(result.depth_, TextWidth(text, kFont) + kGap);
  }
  result.overhang_ = labels.empty() ? 0 : std::max(0.0, (kLine - cell) / 2);
  return result;
}

CellLabels CellLabels::OfColumns(const std::vector<std::string>& labels, double cell) {
  CellLabels result;
  double widest = 0;
  for (const std::string& label : labels) {
    widest = std::max(widest, TextWidth(FitText(label, kFont, kMaxWidth), kFont));
  }
  if (widest == 0) return result;
  const int64_t level = StepFor(widest + 8, cell), turned = StepFor(kLine, cell);
  result.turned_ = turned == 1 ? level > 1 : level > 2 * turned;
  result.Keep(labels, result.turned_ ? turned : level);
  widest = 0;
  for (const std::string& text : result.texts_) widest = std::max(widest, TextWidth(text, kFont));
  result.depth_ = (result.turned_ ? widest : kFont) + kGap;
  result.overhang_ = std::max(0.0, ((result.turned_ ? kLine : widest) - cell) / 2);
  return result;
}

void CellLabels::DrawLeft(SvgWriter& svg, const MapBox& map) const {
  const double cell = map.height / static_cast<double>(texts_.size());
  for (size_t i = 0; i < texts_.size(); ++i) {
    if (texts_[i].empty()) continue;
    svg.Text(texts_[i], {{"class", "ink"},
                         {"x", map.x - kGap},
                         {"y", map.y + (static_cast<double>(i) + 0.5) * cell + kMiddle * kFont},
                         {"font-size", kFont},
                         {"text-anchor", "end"}});
  }
}

void CellLabels::DrawAbove(SvgWriter& svg, const MapBox& map) const {
  const double cell = map.width / static_cast<double>(texts_.size());
  for (size_t i = 0; i < texts_.size(); ++i) {
    if (texts_[i].empty()) continue;
    const double x = map.x + (static_cast<double>(i) + 0.5) * cell, y = map.y - kGap;
    if (turned_) {
      svg.Text(texts_[i], {{"class", "ink"},
                           {"transform", fmt::format("translate({} {}) rotate(-90)",
                                                     SvgNumber(x + kMiddle * kFont), SvgNumber(y))},
                           {"font-size", kFont}});
    } else {
      svg.Text(
          texts_[i],
          {{"class", "ink"}, {"x", x}, {"y", y}, {"font-size", kFont}, {"text-anchor", "middle"}});
    }
  }
}

CellNumbers NumbersThatFit(const Heatmap& map, double cell_width, double cell_height) {
  double largest = 0;
  for (const float v : map.values) {
    if (std::isfinite(v)) largest = std::max(largest, std::abs(static_cast<double>(v)));
  }
  if (largest >= 1e5 || (largest > 0 && largest < 1e-3)) return {};
  std::vector<std::string> texts;
  double widest = 0;
  for (const float v : map.values) {
    texts.push_back(std::isfinite(v) ? CellNumber(v, Decimals(largest)) : "");
    widest = std::max(widest, TextWidth(texts.back(), 1));
  }
  for (const double font_size : {11.0, 10.0, 9.0}) {
    if (widest * font_size + 4 <= cell_width && font_size + 4 <= cell_height) {
      return {std::move(texts), font_size};
    }
  }
  return {};
}

void DrawNumbers(SvgWriter& svg, const CellNumbers& numbers, const Shades& shades,
                 const MapBox& map) {
  if (numbers.texts.empty()) return;
  const double width = map.width / static_cast<double>(shades.columns);
  const double height = map.height / static_cast<double>(shades.rows);
  svg.Open("g", {{"font-size", numbers.font_size}, {"text-anchor", "middle"}});
  for (size_t i = 0; i < numbers.texts.size(); ++i) {
    if (numbers.texts[i].empty()) continue;
    const auto columns = static_cast<size_t>(shades.columns);
    const size_t row = i / columns, column = i % columns;
    svg.Text(numbers.texts[i], {{"class", std::string(TextOnClass(shades.values[i]))},
                                {"x", map.x + (static_cast<double>(column) + 0.5) * width},
                                {"y", map.y + (static_cast<double>(row) + 0.5) * height +
                                          kMiddle * numbers.font_size}});
  }
  svg.Close();
}

}  // namespace folio
