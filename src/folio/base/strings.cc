#include "folio/base/strings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "folio/base/error.h"

namespace folio {
namespace {

// Divides by 1000 until the value, rounded to `decimals`, is below 1000 or units run out.
std::string Scaled(double value, std::span<const char* const> units, int decimals,
                   const char* separator) {
  const double limit = 1000.0 - 0.5 * std::pow(10.0, -decimals);
  size_t unit = 0;
  while (unit + 1 < units.size() && std::abs(value) >= (unit == 0 ? 1000.0 : limit)) {
    value /= 1000.0;
    ++unit;
  }
  return fmt::format("{:.{}f}{}{}", value, unit == 0 ? 0 : decimals, separator, units[unit]);
}

}  // namespace

int EditDistance(std::string_view a, std::string_view b) {
  std::vector<int> before, previous(b.size() + 1), current(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) previous[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int substitution = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, substitution});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], before[j - 2] + 1);
      }
    }
    before = previous;
    std::swap(previous, current);
  }
  return previous[b.size()];
}

std::string Nearest(std::string_view word, std::span<const std::string> candidates) {
  std::string best;
  int best_distance = std::min(3, static_cast<int>(word.size()));
  for (const std::string& candidate : candidates) {
    const int distance = EditDistance(word, candidate);
    if (distance >= best_distance) continue;
    best_distance = distance;
    best = candidate;
  }
  return best;
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string Join(std::span<const std::string> parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string ShellWord(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./,:+=@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == text.npos) return std::string(text);
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

std::string LowerAscii(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

std::string HumanBytes(double bytes) {
  static constexpr std::array kUnits = {"B", "KB", "MB", "GB", "TB", "PB"};
  return Scaled(bytes, kUnits, 2, " ");
}

std::string HumanCount(double count) {
  static constexpr std::array kUnits = {"", "K", "M", "B", "T"};
  return Scaled(count, kUnits, 1, "");
}

std::string HumanSeconds(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  if (seconds < 0) return fmt::format("-{}", HumanSeconds(-seconds));
  if (seconds < 0.9995e-3) return fmt::format("{:.0f}us", seconds * 1e6);
  if (seconds < 0.9995) return fmt::format("{:.0f}ms", seconds * 1e3);
  if (seconds < 59.95) return fmt::format("{:.1f}s", seconds);
  if (seconds >= 1e15) return fmt::format("{:.0e}s", seconds);
  constexpr int64_t kYear = 31'557'600, kManyDays = 100 * 86400;  // above this, hours are left out
  const int64_t whole = std::llround(seconds);
  if (whole >= 2 * kYear) return fmt::format("{} years", WithCommas(whole / kYear));
  if (whole >= kManyDays) return fmt::format("{} days", whole / 86400);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
  return fmt::format("{}d{:02}h", whole / 86400, whole / 3600 % 24);
}

std::string WithCommas(int64_t value) {
  const std::string digits = std::to_string(value);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    const bool after_digit = i > 0 && digits[i - 1] != '-';
    if (after_digit && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

double ParseSeconds(std::string_view text, std::string_view flag) {
  std::string_view rest = text;
  double seconds = 0;
  while (!rest.empty()) {
    double count = 0;
    const auto [end, problem] = std::from_chars(rest.data(), rest.data() + rest.size(), count);
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    const size_t unit = rest.empty() ? 0 : std::string_view("smhd").find(rest[0]);
    if (problem != std::errc() || unit == rest.npos || !std::isfinite(count)) {
      seconds = 0;
      break;
    }
    constexpr std::array kUnits = {1.0, 60.0, 3600.0, 86400.0};
    seconds += count * kUnits[unit];
    rest.remove_prefix(std::min<size_t>(1, rest.size()));
  }
  if (seconds >= 1 && seconds < 1e9) return seconds;
  throw UsageError(fmt::format("{}: '{}' is not a time", flag, text),
                   "expected seconds, or numbers with the units s, m, h or d",
                   fmt::format("for example {} 90s, {} 1h30m", flag, flag));
}

}  // namespace folio
