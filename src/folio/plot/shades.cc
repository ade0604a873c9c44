#include "folio/plot/shades.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "folio/base/check.h"
#include "folio/plot/png.h"

namespace folio {
namespace {

// One picture of what `level` (0 to 1) makes of each shade; "" if that is 0 everywhere.
template <typename Level>
std::string PictureOf(const Shades& shades, int64_t cell_width, int64_t cell_height, Level level) {
  const int64_t width = shades.columns * cell_width;
  std::vector<uint8_t> pixels;
  pixels.reserve(static_cast<size_t>(width * shades.rows * cell_height));
  bool any = false;
  std::vector<uint8_t> line(static_cast<size_t>(width));
  for (int64_t r = 0; r < shades.rows; ++r) {
    for (int64_t c = 0; c < shades.columns; ++c) {
      const double value = level(shades.values[static_cast<size_t>(r * shades.columns + c)]);
      const auto grey = static_cast<uint8_t>(std::lround(value * 255));
      any |= grey != 0;
      std::fill_n(line.begin() + c * cell_width, cell_width, grey);
    }
    for (int64_t i = 0; i < cell_height; ++i) {
      pixels.insert(pixels.end(), line.begin(), line.end());
    }
  }
  return any ? GreyPng(pixels, width, shades.rows * cell_height) : "";
}

}  // namespace

bool Shades::AnyMasked() const {
  return std::any_of(values.begin(), values.end(), [](float v) { return std::isnan(v); });
}

Shades ShadesOf(const Heatmap& map, const HeatRange& range, bool per_row) {
  FOLIO_CHECK(map.rows >= 0 && map.columns >= 0 &&
                  map.values.size() == static_cast<size_t>(map.rows * map.columns),
              "the values do not fill the map");
  Shades shades{.rows = map.rows, .columns = map.columns, .values = map.values};
  const auto columns = static_cast<size_t>(map.columns);
  for (size_t at = 0; at < shades.values.size(); at += columns) {
    const std::span<float> row(shades.values.data() + at, columns);
    HeatRange row_range = range;
    if (per_row) {
      double full = 0;
      for (const float v : row) {
        if (std::isfinite(v)) full = std::max(full, std::abs(static_cast<double>(v)));
      }
      row_range.full = full > 0 ? full : 1;
    }
    for (float& v : row) v = static_cast<float>(Shade(v, row_range));
  }
  return shades;
}

Shades Pooled(Shades shades, int64_t max_side) {
  const auto groups = [&](int64_t n) { return (n + max_side - 1) / max_side; };
  const int64_t down = std::max<int64_t>(groups(shades.rows), 1);
  const int64_t across = std::max<int64_t>(groups(shades.columns), 1);
  if (down == 1 && across == 1) return shades;
  Shades pooled{.rows = (shades.rows + down - 1) / down,
                .columns = (shades.columns + across - 1) / across};
  pooled.values.assign(static_cast<size_t>(pooled.rows * pooled.columns),
                       std::numeric_limits<float>::quiet_NaN());
  for (int64_t r = 0; r < shades.rows; ++r) {
    for (int64_t c = 0; c < shades.columns; ++c) {
      const float v = shades.values[static_cast<size_t>(r * shades.columns + c)];
      float& largest = pooled.values[static_cast<size_t>(r / down * pooled.columns + c / across)];
      if (std::isnan(largest) || std::abs(v) > std::abs(largest)) largest = v;
    }
  }
  return pooled;
}

void DrawCells(SvgWriter& svg, const Shades& shades, const MapBox& box,
               const std::vector<std::string>& tooltips) {
  const double width = box.width / static_cast<double>(shades.columns);
  const double height = box.height / static_cast<double>(shades.rows);
  std::string masked;
  svg.Open("g", {{"shape-rendering", "crispEdges"}});
  for (int64_t r = 0; r < shades.rows; ++r) {
    for (int64_t c = 0; c < shades.columns; ++c) {
      const auto i = static_cast<size_t>(r * shades.columns + c);
      const double shade = shades.values[i];
      const double x = box.x + static_cast<double>(c) * width;
      const double y = box.y + static_cast<double>(r) * height;
      if (std::isnan(shade)) {
        masked += fmt::format("M{} {}h{}v{}h-{}z", SvgNumber(x), SvgNumber(y), SvgNumber(width),
                              SvgNumber(height), SvgNumber(width));
        continue;
      }
      const SvgAttributes attributes = {{"class", std::string(AreaClass(shade))},
                                        {"x", x},
                                        {"y", y},
                                        {"width", width},
                                        {"height", height},
                                        {"fill-opacity", std::abs(shade)}};
      if (tooltips.empty()) {
        if (shade != 0) svg.Element("rect", attributes);
        continue;
      }
      svg.Open("rect", attributes);
      svg.Tooltip(tooltips[i]);
      svg.Close();
    }
  }
  svg.Close();
  if (!masked.empty()) svg.Element("path", {{"fill", "url(#hatch)"}, {"d", masked}});
}

void ShadePictures::Add(const Shades& shades, double x, double y, int64_t cell_width,
                        int64_t cell_height) {
  FOLIO_CHECK(cell_width >= 1 && cell_height >= 1, "a cell has no pixel");
  const MapBox box{x, y, static_cast<double>(shades.columns * cell_width),
                   static_cast<double>(shades.rows * cell_height)};
  const auto add = [&](std::vector<Picture>& pictures, auto level) {
    std::string png = PictureOf(shades, cell_width, cell_height, level);
    if (!png.empty()) pictures.push_back({box, std::move(png)});
  };
  add(plus_, [](float v) { return v > 0 ? v : 0; });
  add(minus_, [](float v) { return v < 0 ? -v : 0; });
  add(masked_, [](float v) { return std::isnan(v) ? 1 : 0; });
}

void ShadePictures::Draw(SvgWriter& svg, double width, double height) const {
  const auto layer = [&](const std::vector<Picture>& pictures, const std::string& id,
                         const SvgAttribute& paint) {
    if (pictures.empty()) return;
    svg.Open("mask", {{"id", id},
                      {"maskUnits", "userSpaceOnUse"},
                      {"x", 0},
                      {"y", 0},
                      {"width", width},
                      {"height", height}});
    for (const Picture& picture : pictures) {
      svg.Element("image", {{"x", picture.box.x},
                            {"y", picture.box.y},
                            {"width", picture.box.width},
                            {"height", picture.box.height},
                            {"preserveAspectRatio", "none"},
                            {"style", "image-rendering:pixelated"},
                            {"href", "data:image/png;base64," + Base64(picture.png)}});
    }
    svg.Close();
    svg.Element(
        "rect",
        {paint, {"width", width}, {"height", height}, {"mask", fmt::format("url(#{})", id)}});
  };
  layer(plus_, "plus-mask", {"class", "plus"});
  layer(minus_, "minus-mask", {"class", "minus"});
  layer(masked_, "masked-mask", {"fill", "url(#hatch)"});
}

}  // namespace folio
