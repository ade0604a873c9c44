#include "folio/plot/token_strip.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "folio/plot/svg.h"

namespace folio {
namespace {

constexpr double kTokenFont = 14, kTokenNoteFont = 9, kTokenKeyFont = 11;
constexpr double kPadding = 3, kBox = 22, kTokenGap = 2, kLineGap = 8;
constexpr double kUnderline = 3;  // from one line below a token to the next
constexpr int kMaxUnderlines = 3;
constexpr int kTokenKeySteps = 10;
constexpr double kKeyStep = 12;

struct Place {
  double x = 0, width = 0;
  size_t line = 0;
};

double TokenWidth(const StripToken& token, double most) {
  const double width =
      std::max({TextWidth(token.text, kTokenFont), TextWidth(token.note, kTokenNoteFont), 4.0});
  return std::min(width + 2 * kPadding, most);
}

std::vector<Place> PlaceTokens(std::span<const StripToken> tokens, double width) {
  std::vector<Place> places;
  double x = 0;
  size_t line = 0;
  for (const StripToken& token : tokens) {
    const double token_width = TokenWidth(token, width);
    if (x > 0 && x + token_width > width) {
      x = 0;
      ++line;
    }
    places.push_back({x, token_width, line});
    x += token_width + kTokenGap;
    if (token.line_break) {
      x = 0;
      ++line;
    }
  }
  return places;
}

void DrawToken(SvgWriter& svg, const StripToken& token, double x, double y, double width) {
  const double heat = std::isfinite(token.heat) ? std::clamp(token.heat, 0.0, 1.0) : 0;
  const double inner = width - 2 * kPadding;
  svg.Element("rect", {{"class", "plus"},
                       {"x", x},
                       {"y", y},
                       {"width", width},
                       {"height", kBox},
                       {"rx", 3},
                       {"fill-opacity", heat}});
  svg.Text(FitText(token.text, kTokenFont, inner), x + width / 2, y + kBox / 2 + kTokenFont * 0.35,
           {.style = TextOnClass(heat), .font = kTokenFont, .anchor = "middle"});
  y += kBox + 2.5;
  std::string lines;
  const int count = std::clamp(token.underline, 0, kMaxUnderlines);
  for (int i = 0; i < count; ++i) {
    lines += fmt::format("M{} {}h{}", SvgNumber(x + 1), SvgNumber(y + i * kUnderline),
                         SvgNumber(width - 2));
  }
  if (!lines.empty()) {
    svg.Element("path", {{"class", "s6"}, {"stroke-width", 1}, {"d", lines}});
  }
}

void DrawKey(SvgWriter& svg, const std::string& key, double y, double width) {
  if (key.empty()) return;
  for (int i = 0; i < kTokenKeySteps; ++i) {
    svg.Rect("plus", {kFigureMargin + i * kKeyStep, y, kKeyStep, kTokenKeyFont},
             (i + 0.5) / kTokenKeySteps);
  }
  const double ramp = kTokenKeySteps * kKeyStep;
  svg.Rect("frame", {kFigureMargin, y, ramp, kTokenKeyFont});
  svg.Text(FitText(key, kTokenKeyFont, width - ramp - 8), kFigureMargin + ramp + 8,
           y + kTokenKeyFont * 0.85, {.style = "muted", .font = kTokenKeyFont});
}

}  // namespace

std::string TokenStripSvg(std::span<const StripToken> tokens, const StripOptions& options) {
  const double width = std::max(options.width, 240.0), inner = width - 2 * kFigureMargin;
  const Heading heading(options.title, {}, inner);
  const std::vector<Place> places = PlaceTokens(tokens, inner);
  bool notes = false;
  int underlines = 0;
  for (const StripToken& token : tokens) {
    notes |= !token.note.empty();
    underlines = std::max(underlines, std::clamp(token.underline, 0, kMaxUnderlines));
  }
  const double below = underlines * kUnderline + (notes ? kTokenNoteFont + 4 : 0);
  const double pitch = kBox + below + kLineGap;
  const double lines = places.empty() ? 1 : static_cast<double>(places.back().line + 1);
  const double top = kFigureMargin + heading.Height(), key_top = top + lines * pitch + 2;
  const double key_height = options.key.empty() ? 0 : kTokenKeyFont + kFigureMargin;
  SvgWriter svg(width, std::ceil(key_top + key_height),
                options.title.empty() ? "tokens" : options.title);
  heading.Draw(svg, kFigureMargin, kFigureMargin);
  if (tokens.empty()) {
    svg.Text("no tokens", kFigureMargin, top + kTokenFont, {.style = "muted"});
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    const double x = kFigureMargin + places[i].x;
    const double y = top + static_cast<double>(places[i].line) * pitch;
    DrawToken(svg, tokens[i], x, y, places[i].width);
    if (tokens[i].note.empty()) continue;
    const double note_width = places[i].width - 2 * kPadding;
    svg.Text(FitText(tokens[i].note, kTokenNoteFont, note_width), x + places[i].width / 2,
             y + kBox + below - 3, {.style = "muted", .font = kTokenNoteFont, .anchor = "middle"});
  }
  DrawKey(svg, options.key, key_top, inner);
  return std::move(svg).Finish();
}

}  // namespace folio
