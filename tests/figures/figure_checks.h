#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace folio {

// Rows from the top, three bytes a pixel: red, green, blue.
struct Picture {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> pixels = {};

  const uint8_t* At(int64_t x, int64_t y) const;  // REQUIRES: inside
  uint32_t Colour(int64_t x, int64_t y) const;    // 0xRRGGBB
};

// The reason why SVG documents cannot be rendered on this machine, or "". In a test:
//   if (const std::string why = WhyNoRenderer(); !why.empty()) GTEST_SKIP() << why;
std::string WhyNoRenderer();

// The document as rsvg-convert draws it, on white, enlarged by `zoom`. Throws std::runtime_error.
Picture Render(std::string_view svg, double zoom = 1);

// The document as a reader in dark mode sees it, written without media queries, which rsvg-convert
// does not know.
std::string InDarkMode(std::string_view svg);

// Lists the faults of a figure, a line each; "" if it is sound: a well-formed SVG document with
// unique ids and references to existing ids, without other files, with a dark mode; it has the
// declared size and is blank in neither mode; its texts include all of `labels`; no text overlaps
// another and nothing extends beyond the border. Visibility is checked on the pixels of
// rsvg-convert. REQUIRES: WhyNoRenderer() is "".
std::string CheckFigure(std::string_view svg, const std::vector<std::string>& labels);

// The same for every figure of an HTML page, which must have some; each of `labels` may be in any
// of them. Ids must be unique in the whole page.
std::string CheckPage(std::string_view html, const std::vector<std::string>& labels);

// The SVG documents inside of an HTML page.
std::vector<std::string> FiguresOf(std::string_view html);

}  // namespace folio
