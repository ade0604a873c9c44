#include "folio/plot/svg.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

#include "folio/base/check.h"

namespace folio {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr std::string_view kEllipsis = "\xE2\x80\xA6";     // U+2026

constexpr std::string_view kStyle = R"(
.folio-plot{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",
"DejaVu Sans",sans-serif;font-size:12px}
.folio-plot .page{fill:#fff}.folio-plot .ink{fill:#1b1b1b}.folio-plot .muted{fill:#5a5a5a}
.folio-plot .grid{stroke:#e6e6e6}.folio-plot .axis{stroke:#9a9a9a}
.folio-plot .line{fill:none;stroke-linejoin:round;stroke-linecap:round}
.folio-plot .s0{stroke:#0072b2}.folio-plot .s1{stroke:#d55e00}.folio-plot .s2{stroke:#009e73}
.folio-plot .s3{stroke:#e69f00}.folio-plot .s4{stroke:#cc79a7}.folio-plot .s5{stroke:#56b4e9}
.folio-plot .s6{stroke:#1b1b1b}
@media (prefers-color-scheme:dark){
.folio-plot .page{fill:#16181c}.folio-plot .ink{fill:#ececec}.folio-plot .muted{fill:#a9adb3}
.folio-plot .grid{stroke:#2b2f36}.folio-plot .axis{stroke:#646a73}
.folio-plot .s0{stroke:#3d9fdc}.folio-plot .s1{stroke:#f07f2e}.folio-plot .s2{stroke:#22bb92}
.folio-plot .s6{stroke:#ececec}
}
)";

// One character at the front of `text`.
struct Character {
  size_t bytes = 1;
  uint32_t code = 0;
  bool valid = false;
};

Character FirstCharacter(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, lead, true};
  const size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || bytes > text.size()) return {};
  uint32_t code = lead & (0x7Fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3F);
  }
  static constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  if (code < kSmallest[bytes] || code > 0x10FFFF || surrogate) return {};
  return {bytes, code, true};
}

bool AllowedInXml(uint32_t code) {
  return (code >= 0x20 || code == '\t' || code == '\n' || code == '\r') && code != 0xFFFE &&
         code != 0xFFFF;
}

// In units of the font size, as in the wider ones of the system fonts.
double CharacterWidth(const Character& character) {
  if (character.code >= 0x1100) return 1.0;  // ideographs and symbols
  const char ascii = character.code < 0x80 ? static_cast<char>(character.code) : 'n';
  if (std::string_view("mwMW@%").find(ascii) != std::string_view::npos) return 1.0;
  if (std::string_view(" .,:;'!|()[]ijlftrI-").find(ascii) != std::string_view::npos) return 0.42;
  return ascii >= 'A' && ascii <= 'Z' ? 0.78 : 0.64;
}

}  // namespace

std::string SvgNumber(double value) {
  FOLIO_CHECK(std::isfinite(value), "a coordinate is not finite");
  std::string text = fmt::format("{:.2f}", value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  if (text == "-0") return "0";
  return text;
}

std::string XmlEscape(std::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const Character character = FirstCharacter(text);
    if (!character.valid || !AllowedInXml(character.code)) {
      escaped += kReplacement;
    } else if (character.code == '&') {
      escaped += "&amp;";
    } else if (character.code == '<') {
      escaped += "&lt;";
    } else if (character.code == '>') {
      escaped += "&gt;";
    } else if (character.code == '"') {
      escaped += "&quot;";
    } else {
      escaped += text.substr(0, character.bytes);
    }
    text.remove_prefix(character.bytes);
  }
  return escaped;
}

SvgWriter::SvgWriter(double width, double height, std::string_view title) {
  out_ = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  Open("svg", {{"xmlns", "http://www.w3.org/2000/svg"},
               {"class", "folio-plot"},
               {"role", "img"},
               {"width", width},
               {"height", height},
               {"viewBox", fmt::format("0 0 {} {}", SvgNumber(width), SvgNumber(height))}});
  out_ += fmt::format("<title>{}</title>\n<style>{}</style>\n", XmlEscape(title), kStyle);
  Element("rect", {{"class", "page"}, {"width", width}, {"height", height}});
}

void SvgWriter::Tag(std::string_view tag, SvgAttributes attributes, std::string_view end) {
  out_ += '<';
  out_ += tag;
  for (const SvgAttribute& attribute : attributes) {
    out_ += fmt::format(" {}=\"{}\"", attribute.name, XmlEscape(attribute.value));
  }
  out_ += end;
}

void SvgWriter::Open(std::string_view tag, SvgAttributes attributes) {
  Tag(tag, attributes, ">\n");
  open_.emplace_back(tag);
}

void SvgWriter::Close() {
  FOLIO_CHECK(!open_.empty(), "no element is open");
  out_ += fmt::format("</{}>\n", open_.back());
  open_.pop_back();
}

void SvgWriter::Element(std::string_view tag, SvgAttributes attributes) {
  Tag(tag, attributes, "/>\n");
}

void SvgWriter::Text(std::string_view text, SvgAttributes attributes) {
  Tag("text", attributes, ">");
  out_ += XmlEscape(text);
  out_ += "</text>\n";
}

std::string SvgWriter::Finish() && {
  FOLIO_CHECK(open_.size() == 1, "an element was left open");
  Close();
  return std::move(out_);
}

double TextWidth(std::string_view text, double font_size) {
  double width = 0;
  while (!text.empty()) {
    const Character character = FirstCharacter(text);
    width += CharacterWidth(character) * font_size;
    text.remove_prefix(character.bytes);
  }
  return width;
}

std::string FitText(std::string_view text, double font_size, double width) {
  if (TextWidth(text, font_size) <= width) return std::string(text);
  double left = width - TextWidth(kEllipsis, font_size);
  size_t end = 0;
  while (end < text.size()) {
    const Character character = FirstCharacter(text.substr(end));
    left -= CharacterWidth(character) * font_size;
    if (left < 0) break;
    end += character.bytes;
  }
  return std::string(text.substr(0, end)) + std::string(kEllipsis);
}

}  // namespace folio
