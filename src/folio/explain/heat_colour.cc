#include "folio/explain/heat_colour.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace folio {
namespace {

constexpr int kLevels = 7;
constexpr std::array<int, kLevels> kPositive = {189, 153, 111, 75, 33, 26, 19};
constexpr std::array<int, kLevels> kNegative = {223, 216, 215, 208, 166, 130, 94};
constexpr int kDarkFrom = 5;  // from this level on the foreground is white
constexpr int kBlack = 16, kWhite = 231;

}  // namespace

std::string HeatColoured(std::string_view text, double value, double largest) {
  if (!std::isfinite(value) || largest <= 0) return std::string(text);
  const long level = std::lround(std::sqrt(std::abs(value) / largest) * kLevels);
  if (level == 0) return std::string(text);
  const auto place = static_cast<size_t>(level - 1);
  return fmt::format("\x1b[48;5;{};38;5;{}m{}\x1b[0m",
                     value > 0 ? kPositive[place] : kNegative[place],
                     level > kDarkFrom ? kWhite : kBlack, text);
}

}  // namespace folio
