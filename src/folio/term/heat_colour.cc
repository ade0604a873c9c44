#include "folio/term/heat_colour.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace folio {
namespace {

// Of one middling lightness, so that black and white pages are equally far away and more means more
// saturated on both: first coloured letters, then grounds under black ones.
constexpr size_t kLevels = 7, kLetters = 2;
constexpr std::array<int, kLevels> kPositive = {67, 33, 103, 67, 68, 69, 33};
constexpr std::array<int, kLevels> kNegative = {137, 166, 138, 137, 173, 172, 202};

}  // namespace

std::string HeatColoured(std::string_view text, double value, double largest) {
  if (!std::isfinite(value) || largest <= 0) return std::string(text);
  const long level = std::lround(std::sqrt(std::abs(value) / largest) * static_cast<long>(kLevels));
  if (level == 0) return std::string(text);
  const auto place = std::min(static_cast<size_t>(level), kLevels) - 1;
  const int colour = value > 0 ? kPositive[place] : kNegative[place];
  if (place < kLetters) return fmt::format("\x1b[38;5;{}m{}\x1b[0m", colour, text);
  return fmt::format("\x1b[48;5;{};38;5;16m{}\x1b[0m", colour, text);
}

}  // namespace folio
