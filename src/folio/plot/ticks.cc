#include "folio/plot/ticks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "folio/base/check.h"

namespace folio {
namespace {

// A bound of a range that is a tick but for rounding still counts.
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

// `value` exact to `step`, scaled as suits the largest value of the axis.
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

double Power10(int exponent) {
  return std::pow(10.0, exponent);
}

}  // namespace

std::vector<Tick> LinearTicks(double low, double high, int count) {
  FOLIO_CHECK(low < high && count >= 1, "no range for ticks");
  const double raw = (high - low) / count;
  const double power = Power10(static_cast<int>(std::floor(std::log10(raw))));
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
      const double value = factor * Power10(exponent);
      if (value < low * (1 - kSlack) || value > high * (1 + kSlack)) continue;
      ticks.push_back({value, Label(value, Power10(exponent), value)});
    }
  }
  return ticks.size() >= 2 ? ticks : LinearTicks(low, high, count);
}

}  // namespace folio
