#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace folio {

// The tolerance for numbers of about 1: this many roundings in a row, each by half a unit in the
// last place of the compute dtype.
constexpr double Float32Error(double roundings) {
  return roundings * 0x1p-24;
}
constexpr double Float64Error(double roundings) {
  return roundings * 0x1p-53;
}

// The numbers of roundings in what the tests compute.
inline constexpr double kFloat32Once = Float32Error(1.5);   // one unit off, and rounded
inline constexpr double kFloat32Row = Float32Error(16);     // a softmax, a sum of a few terms
inline constexpr double kFloat32Chain = Float32Error(128);  // a sublayer; a row of products
inline constexpr double kFloat32Model = Float32Error(256);  // a whole small model
inline constexpr double kFloat64Chain = Float64Error(8192);

// The tolerance of a number that is quoted with this many digits after its point.
inline double QuotedTo(int digits) {
  return 0.5 * std::pow(10.0, -digits);
}

// The largest magnitude, and the largest difference of two ranges of one length; NaN if there is
// one.
template <class Range>
double Largest(const Range& values) {
  double largest = 0;
  for (const auto value : values) largest = std::max(largest, std::abs(static_cast<double>(value)));
  return largest;
}
template <class A, class B>
double Difference(const A& a, const B& b) {
  EXPECT_EQ(std::size(a), std::size(b));
  double worst = 0;
  for (size_t i = 0; i < std::min(std::size(a), std::size(b)); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    worst = std::isnan(difference) || std::isnan(worst) ? NAN : std::max(worst, difference);
  }
  return worst;
}

// Each number is within `tolerance` of the expected one.
inline void ExpectNear(const std::vector<double>& found, const std::vector<double>& expected,
                       double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], tolerance) << i;
}

// Each number is within `part` of the largest expected magnitude.
template <class A, class B>
void ExpectClose(const A& found, const B& expected, double part) {
  EXPECT_LE(Difference(found, expected), part * Largest(expected));
}

// d loss() / d x between x - 1e-5 and x + 1e-5, in float64. It loses 2e-11 of the loss to rounding,
// and 2e-11 of its third derivative.
template <class F>
double CentralDifference(double& x, const F& loss) {
  constexpr double kStep = 1e-5;
  const double before = x;
  x = before + kStep;
  const double above = loss();
  x = before - kStep;
  const double below = loss();
  x = before;
  return (above - below) / (2 * kStep);
}

}  // namespace folio
