#include "folio/apps/terminal_text.h"

#include <algorithm>
#include <array>

#include "folio/lesson/heat_colour.h"
#include "folio/lesson/terminal_text.h"

namespace folio {
namespace {

// Below this share of full heat a sign says "next to nothing".
constexpr double kFaintest = 0.05;

// Length of the colour escape at `at`, or 0.
size_t EscapeLength(std::string_view text, size_t at) {
  if (!text.substr(at).starts_with("\x1b[")) return 0;
  const size_t end = text.find('m', at);
  return end == std::string_view::npos ? 0 : end + 1 - at;
}

}  // namespace

int DisplayWidth(std::string_view text) {
  int width = 0;
  for (size_t at = 0; at < text.size();) {
    if (const size_t escape = EscapeLength(text, at)) {
      at += escape;
      continue;
    }
    const size_t end = std::min(text.find('\x1b', at + 1), text.size());
    width += static_cast<int>(TextColumns(text.substr(at, end - at)));
    at = end;
  }
  return width;
}

std::string FitColumns(const Terminal& terminal, std::string_view text, int width) {
  return PadRight(TerminalLabel(text, width, !AsciiOnly(terminal)), width);
}

std::string Heated(const Terminal& terminal, double heat, std::string_view text) {
  if (!terminal.color) return std::string(text);
  const double share = std::clamp(heat, 0.0, 1.0);
  return HeatColoured(text, share * share, 1);  // which takes the square root
}

std::string_view ShadeSign(const Terminal& terminal, double heat) {
  constexpr std::array<std::string_view, 5> kBlocks = {"·", "░", "▒", "▓", "█"};
  constexpr std::array<std::string_view, 5> kSigns = {".", "-", "+", "*", "#"};
  size_t step = 0;
  if (heat >= kFaintest) step = 1 + static_cast<size_t>(std::min(heat * 4, 3.0));
  return AsciiOnly(terminal) ? kSigns[step] : kBlocks[step];
}

}  // namespace folio
