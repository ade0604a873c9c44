#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace folio {

// At most two decimals, no trailing zeros: "12.5", "-3", "0". REQUIRES: finite.
std::string SvgNumber(double value);

// The transform of text that is read upward from (x, y).
std::string Turned(double x, double y);

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

// Colours that every figure may use, as classes "s0" to "s6": Okabe and Ito's palette without its
// yellow (M. Okabe, K. Ito, "Color Universal Design", 2008), lightened where the page is dark.
inline constexpr int kSeriesColours = 7;

// Writes one SVG document that follows the reader's light or dark mode and uses system fonts. Other
// classes: "ink", "muted" (text), "grid", "axis" and "hatch" (lines), "frame" (an outline), "off"
// (a grey area); "plus" and "minus", the areas of colour.h, with "on-pale" and "on-full", text on
// them.
class SvgWriter {
 public:
  // `title` is what a screen reader says.
  SvgWriter(double width, double height, std::string_view title);

  void Open(std::string_view tag, SvgAttributes attributes = {});
  void Close();  // the innermost open element
  void Element(std::string_view tag, SvgAttributes attributes);
  void Text(std::string_view text, SvgAttributes attributes);

  // What a reader sees when the pointer rests on the open element.
  void Tooltip(std::string_view text);

  // Closes the document. REQUIRES: every Open had its Close.
  std::string Finish() &&;

 private:
  void Tag(std::string_view tag, SvgAttributes attributes, std::string_view end);

  std::string out_;
  std::vector<std::string> open_;
};

// Width in pixels of a line of text in a system font, estimated generously.
double TextWidth(std::string_view text, double font_size);

// `text`, cut to `width` with an ellipsis if it is wider.
std::string FitText(std::string_view text, double font_size, double width);

// `text` in lines of at most `width`, broken at spaces. What `max_lines` do not hold, and words
// wider than a line, are cut. REQUIRES: max_lines >= 1.
std::vector<std::string> WrapText(std::string_view text, double font_size, double width,
                                  size_t max_lines);

}  // namespace folio
