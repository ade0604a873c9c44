#include "folio/plot/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "folio/base/check.h"
#include "folio/base/visible_text.h"

namespace folio {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr std::string_view kEllipsis = "\xE2\x80\xA6";     // U+2026

constexpr double kHeadingFont = 16, kHeadingLine = 21, kNoteFont = 12, kNoteLine = 16,
                 kHeadingSpace = 8;
constexpr size_t kTitleLines = 2, kNoteLines = 4;

constexpr std::string_view kSvgStyle = R"(
.folio-plot{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",
"DejaVu Sans",sans-serif;font-size:12px}
.folio-plot .page{fill:#fff}.folio-plot .ink{fill:#1b1b1b}.folio-plot .muted{fill:#5a5a5a}
.folio-plot .grid{stroke:#e6e6e6}.folio-plot .axis{stroke:#9a9a9a}
.folio-plot .line{fill:none;stroke-linejoin:round;stroke-linecap:round}
.folio-plot .s0{stroke:#0072b2}.folio-plot .s1{stroke:#d55e00}.folio-plot .s2{stroke:#009e73}
.folio-plot .s3{stroke:#e69f00}.folio-plot .s4{stroke:#cc79a7}.folio-plot .s5{stroke:#56b4e9}
.folio-plot .s6{stroke:#1b1b1b}
.folio-plot .plus{fill:#08407a}.folio-plot .minus{fill:#802d00}.folio-plot .off{fill:#b9bcc1}
.folio-plot .on-pale{fill:#000}.folio-plot .on-full{fill:#fff}
.folio-plot .frame{fill:none;stroke:#9a9a9a}.folio-plot .hatch{stroke:#c4c7cb}
@media (prefers-color-scheme:dark){
.folio-plot .page{fill:#16181c}.folio-plot .ink{fill:#ececec}.folio-plot .muted{fill:#a9adb3}
.folio-plot .grid{stroke:#2b2f36}.folio-plot .axis{stroke:#646a73}
.folio-plot .s0{stroke:#3d9fdc}.folio-plot .s1{stroke:#f07f2e}.folio-plot .s2{stroke:#22bb92}
.folio-plot .s6{stroke:#ececec}
.folio-plot .plus{fill:#40a2e0}.folio-plot .minus{fill:#f07f2e}.folio-plot .off{fill:#565c65}
.folio-plot .on-pale{fill:#fff}.folio-plot .on-full{fill:#000}
.folio-plot .frame{stroke:#646a73}.folio-plot .hatch{stroke:#454b54}
}
)";

// The transform for text that is read upward from (x, y).
std::string Turned(double x, double y) {
  return fmt::format("translate({} {}) rotate(-90)", SvgNumber(x), SvgNumber(y));
}

// Returns the width in font sizes, as in the wider system fonts.
double CharacterWidth(const Utf8Char& character) {
  if (!Printable(character)) return 1.05;  // drawn as U+FFFD
  if (character.code >= 0x1F000) return 1.3;
  if (character.code >= 0x1100) return 1.0;  // ideographs and symbols
  if (character.code >= 0x400) return 0.95;  // scripts with wide letters
  const char ascii = character.code < 0x80 ? static_cast<char>(character.code) : 'n';
  if (std::string_view("mwMW@%").find(ascii) != std::string_view::npos) return 1.0;
  if (std::string_view("#+<=>^~&").find(ascii) != std::string_view::npos) return 0.84;
  if (std::string_view(" .,:;'!|()[]ijlftrI-").find(ascii) != std::string_view::npos) return 0.42;
  return ascii >= 'A' && ascii <= 'Z' ? 0.78 : 0.64;
}

// A bound of a range that is a tick except for rounding still counts.
constexpr double kSlack = 1e-9;

std::string WithMinusSign(const std::string& text) {
  return text.starts_with('-') ? "\xE2\x88\x92" + text.substr(1) : text;
}

std::string Trimmed(std::string text) {
  if (text.find('.') == std::string::npos) return text;
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

// `value` with the precision of `step`, scaled by the largest value of the axis.
std::string Label(double value, double step, double largest) {
  if (std::abs(value) < step * kSlack) return "0";
  static constexpr struct {
    double unit;
    const char* suffix;
  } kScales[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  double unit = 1;
  const char* suffix = "";
  if (largest >= 1e15 || largest < 1e-3) {
    const int digits = static_cast<int>(std::floor(std::log10(std::abs(value)) + kSlack) -
                                        std::floor(std::log10(step) + kSlack));
    const std::string text = fmt::format("{:.{}e}", value, std::clamp(digits, 0, 15));
    const size_t e = text.find('e');
    return WithMinusSign(
        fmt::format("{}e{}", Trimmed(text.substr(0, e)), std::stoi(text.substr(e + 1))));
  }
  if (largest >= 1e5) {
    for (const auto& scale : kScales) {
      if (largest < scale.unit) continue;
      unit = scale.unit;
      suffix = scale.suffix;
      break;
    }
  }
  const int decimals = static_cast<int>(-std::floor(std::log10(step / unit) + kSlack));
  return WithMinusSign(fmt::format("{:.{}f}{}", value / unit, std::clamp(decimals, 0, 15), suffix));
}

}  // namespace

std::string SvgNumber(double value) {
  FOLIO_CHECK(std::isfinite(value), "a coordinate is not finite");
  const std::string text = Trimmed(fmt::format("{:.2f}", value));
  return text == "-0" ? "0" : text;
}

std::string XmlEscape(std::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const Utf8Char character = FirstCharacter(text);
    if (!Printable(character)) {
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
      escaped += text.substr(0, character.length);
    }
    text.remove_prefix(character.length);
  }
  return escaped;
}

std::string_view AreaClass(double shade) {
  return shade < 0 ? "minus" : "plus";
}

std::string_view TextOnClass(double shade) {
  return std::abs(shade) >= kFullShade ? "on-full" : "on-pale";
}

SvgWriter::SvgWriter(double width, double height, std::string_view title) {
  out_ = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  Open("svg", {{"xmlns", "http://www.w3.org/2000/svg"},
               {"class", "folio-plot"},
               {"role", "img"},
               {"width", width},
               {"height", height},
               {"viewBox", fmt::format("0 0 {} {}", SvgNumber(width), SvgNumber(height))}});
  out_ += fmt::format("<title>{}</title>\n<style>{}</style>\n", XmlEscape(title), kSvgStyle);
  Element("rect", {{"class", "page"}, {"width", width}, {"height", height}});
}

void SvgWriter::Tag(std::string_view tag, std::span<const SvgAttribute> attributes,
                    std::string_view end) {
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

void SvgWriter::Text(std::string_view text, double x, double y, const TextLook& look) {
  std::vector<SvgAttribute> attributes = {{"class", std::string(look.style)}};
  if (look.turned) {
    attributes.emplace_back("transform", Turned(x, y));
  } else {
    attributes.emplace_back("x", x);
    attributes.emplace_back("y", y);
  }
  if (look.font > 0) attributes.emplace_back("font-size", look.font);
  if (look.bold) attributes.emplace_back("font-weight", "600");
  if (!look.anchor.empty()) attributes.emplace_back("text-anchor", std::string(look.anchor));
  Tag("text", attributes, ">");
  out_ += XmlEscape(text);
  out_ += "</text>\n";
}

void SvgWriter::Rect(std::string_view style, const PlotBox& box, std::optional<double> opacity) {
  std::vector<SvgAttribute> attributes = {{"class", std::string(style)},
                                          {"x", box.x},
                                          {"y", box.y},
                                          {"width", box.width},
                                          {"height", box.height}};
  if (opacity) attributes.emplace_back("fill-opacity", *opacity);
  Tag("rect", attributes, "/>\n");
}

void SvgWriter::Tooltip(std::string_view text) {
  out_ += fmt::format("<title>{}</title>\n", XmlEscape(text));
}

std::string SvgWriter::Finish() && {
  FOLIO_CHECK(open_.size() == 1, "an element was left open");
  Close();
  return std::move(out_);
}

double TextWidth(std::string_view text, double font_size) {
  double width = 0;
  while (!text.empty()) {
    const Utf8Char character = FirstCharacter(text);
    width += CharacterWidth(character) * font_size;
    text.remove_prefix(character.length);
  }
  return width;
}

std::string FitText(std::string_view text, double font_size, double width) {
  constexpr double kRounding = 1e-6;  // for a width that was computed from this very text
  if (TextWidth(text, font_size) <= width + kRounding) return std::string(text);
  double left = width - TextWidth(kEllipsis, font_size);
  size_t end = 0;
  while (end < text.size()) {
    const Utf8Char character = FirstCharacter(text.substr(end));
    left -= CharacterWidth(character) * font_size;
    if (left < 0) break;
    end += character.length;
  }
  return std::string(text.substr(0, end)) + std::string(kEllipsis);
}

std::vector<std::string> WrapText(std::string_view text, double font_size, double width,
                                  size_t max_lines) {
  FOLIO_CHECK(max_lines >= 1, "no line to write on");
  std::vector<std::string> lines;
  const double space = TextWidth(" ", font_size);
  double used = 0;
  for (size_t at = 0; (at = text.find_first_not_of(" \n\t", at)) != std::string_view::npos;) {
    const std::string_view word = text.substr(at, text.find_first_of(" \n\t", at) - at);
    at += word.size();
    const double needed = TextWidth(word, font_size);
    const bool fits = !lines.empty() && used + space + needed <= width;
    if (fits || lines.size() == max_lines) {
      lines.back() += ' ';
      lines.back() += word;
      used += space + needed;
    } else {
      lines.emplace_back(word);
      used = needed;
    }
  }
  for (std::string& line : lines) line = FitText(line, font_size, width);
  return lines;
}

Heading::Heading(std::string_view title, const std::vector<std::string>& notes, double width)
    : title_(WrapText(title, kHeadingFont * kBoldWidth, width, kTitleLines)) {
  for (const std::string& note : notes) {
    const std::vector<std::string> lines = WrapText(note, kNoteFont, width, kNoteLines);
    notes_.insert(notes_.end(), lines.begin(), lines.end());
  }
  for (const std::string& line : title_) {
    width_ = std::max(width_, TextWidth(line, kHeadingFont * kBoldWidth));
  }
  for (const std::string& line : notes_) width_ = std::max(width_, TextWidth(line, kNoteFont));
}

double Heading::Height() const {
  if (title_.empty() && notes_.empty()) return 0;
  return kHeadingLine * static_cast<double>(title_.size()) +
         kNoteLine * static_cast<double>(notes_.size()) + kHeadingSpace;
}

void Heading::Draw(SvgWriter& svg, double x, double y) const {
  for (const std::string& line : title_) {
    svg.Text(line, x, y + kHeadingFont * 0.9, {.font = kHeadingFont, .bold = true});
    y += kHeadingLine;
  }
  for (const std::string& line : notes_) {
    svg.Text(line, x, y + kNoteFont, {.style = "muted", .font = kNoteFont});
    y += kNoteLine;
  }
}

std::vector<Tick> LinearTicks(double low, double high, int count) {
  FOLIO_CHECK(low < high && count >= 1, "no range for ticks");
  const double raw = (high - low) / count;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (double factor : {5.0, 2.0, 1.0}) {
    if (factor * power >= raw * (1 - kSlack)) step = factor * power;
  }
  const double first = std::ceil(low / step - kSlack), last = std::floor(high / step + kSlack);
  const double largest = std::max(std::abs(first), std::abs(last)) * step;
  std::vector<Tick> ticks;
  for (double i = first; i <= last && i + 1 > i; ++i) {
    ticks.push_back({i * step, Label(i * step, step, largest)});
  }
  return ticks;
}

std::vector<Tick> LogTicks(double low, double high, int count) {
  FOLIO_CHECK(0 < low && low < high && count >= 1, "no range for ticks");
  const int first = static_cast<int>(std::floor(std::log10(low)));
  const int last = static_cast<int>(std::ceil(std::log10(high)));
  const int stride = std::max(1, (last - first + count - 1) / count);
  const bool wide = std::log10(high / low) >= 2;
  std::vector<Tick> ticks;
  for (int exponent = first; exponent <= last; ++exponent) {
    for (double factor : {1.0, 2.0, 5.0}) {
      if (factor > 1 && wide) continue;
      if (wide && exponent % stride != 0) continue;
      const double value = factor * std::pow(10.0, exponent);
      if (value < low * (1 - kSlack) || value > high * (1 + kSlack)) continue;
      ticks.push_back({value, Label(value, std::pow(10.0, exponent), value)});
    }
  }
  return ticks.size() >= 2 ? ticks : LinearTicks(low, high, count);
}

}  // namespace folio
