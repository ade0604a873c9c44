#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/base/utf8.h"

namespace folio {

// Writes at most two decimals and no trailing zeros: "12.5", "-3", "0". REQUIRES: finite.
std::string SvgNumber(double value);

// `text` as XML character data or attribute value: markup escaped, control characters and bytes
// that are not UTF-8 replaced by U+FFFD.
std::string XmlEscape(std::string_view text);

struct SvgAttribute {
  SvgAttribute(std::string_view attribute, double number)
      : name(attribute), value(SvgNumber(number)) {}
  SvgAttribute(std::string_view attribute, std::string text)
      : name(attribute), value(std::move(text)) {}

  std::string_view name;
  std::string value;
};
using SvgAttributes = std::initializer_list<SvgAttribute>;

// A part of a figure.
struct PlotBox {
  double x = 0, y = 0, width = 0, height = 0;
};

// The look of a text, and its position relative to its point.
struct TextLook {
  std::string_view style = "ink";  // a class
  double font = 0;                 // size; the figure's if 0
  std::string_view anchor = "";    // the part of the text at the point: "middle", "end", or else
                                   // the beginning
  bool turned = false;             // read upward
  bool bold = false;
};

// Colours for all figures, as classes "s0" to "s6": Okabe and Ito's palette without its yellow (M.
// Okabe, K. Ito, "Color Universal Design", 2008), lightened on dark pages.
inline constexpr int kSeriesColours = 7;

// The class of an area with a positive or negative shade: it is drawn with an opacity of |shade|.
// Text on it has class "on-full" from kFullShade on and "on-pale" below; both are readable in both
// modes, since the areas, Okabe and Ito's blue and vermilion, darkened on light pages and lightened
// on dark ones, have equal contrast to the page in both.
inline constexpr double kFullShade = 0.72;
std::string_view AreaClass(double shade);
std::string_view TextOnClass(double shade);

// Writes one SVG document that follows the reader's light or dark mode and uses system fonts. Other
// classes: "ink", "muted" (text), "grid", "axis" and "hatch" (lines), "frame" (an outline), "off"
// (a grey area); "plus" and "minus", the areas of AreaClass, with "on-pale" and "on-full", text on
// them.
class SvgWriter {
 public:
  // `title` is for screen readers.
  SvgWriter(double width, double height, std::string_view title);

  void Open(std::string_view tag, SvgAttributes attributes = {});
  void Close();  // the innermost open element
  void Element(std::string_view tag, SvgAttributes attributes);
  void Text(std::string_view text, double x, double y, const TextLook& look = {});
  void Rect(std::string_view style, const PlotBox& box, std::optional<double> opacity = {});

  // Sets the tooltip of the open element.
  void Tooltip(std::string_view text);

  // Closes the document. REQUIRES: every Open had its Close.
  std::string Finish() &&;

 private:
  void Tag(std::string_view tag, std::span<const SvgAttribute> attributes, std::string_view end);

  std::string out_;
  std::vector<std::string> open_;
};

// Width in pixels of a line of text in a system font, estimated generously.
double TextWidth(std::string_view text, double font_size);

// `text`, cut to `width` with an ellipsis if it is wider.
std::string FitText(std::string_view text, double font_size, double width);

// `text` in lines of at most `width`, broken at spaces. Text beyond `max_lines`, and words wider
// than a line, are cut. REQUIRES: max_lines >= 1.
std::vector<std::string> WrapText(std::string_view text, double font_size, double width,
                                  size_t max_lines);

// The margin of all figures in this room.
inline constexpr double kFigureMargin = 16;
// The factor by which bold letters are wider.
inline constexpr double kBoldWidth = 1.15;

// Title and smaller lines of text at the top of a figure, in lines of at most `width`.
class Heading {
 public:
  Heading(std::string_view title, const std::vector<std::string>& notes, double width);

  double Width() const { return width_; }
  double Height() const;  // including the space below; 0 if there is no text
  void Draw(SvgWriter& svg, double x, double y) const;  // (x, y) is its top left corner

 private:
  std::vector<std::string> title_, notes_;
  double width_ = 0;
};

struct Tick {
  double value;
  std::string label;
};

// The multiples of 1, 2 or 5 times a power of ten in [low, high], at most about `count` of them.
// REQUIRES: low < high, both below 1e301 in size, count >= 1.
std::vector<Tick> LinearTicks(double low, double high, int count);

// Powers of ten in [low, high], thinned to about `count`; over less than two decades also 2 and 5
// times them, and linear ticks if even those are fewer than two. REQUIRES: 0 < low < high.
std::vector<Tick> LogTicks(double low, double high, int count);

}  // namespace folio
