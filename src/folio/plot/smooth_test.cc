#include <gtest/gtest.h>

#include <cmath>

#include "folio/plot/lines.h"

namespace folio {
namespace {

TEST(Smooth, WithoutWeightIsTheValuesThemselves) {
  const std::vector<double> y = {3, -1, 4, 1.5};
  EXPECT_EQ(Smooth(y, 0), y);
  EXPECT_TRUE(Smooth({}, 0.5).empty());
}

TEST(Smooth, TheFirstValueIsNotPulledToZero) {
  const std::vector<double> smooth = Smooth(std::vector<double>{8, 8, 8, 8, 8}, 0.99);
  for (const double value : smooth) EXPECT_NEAR(value, 8, 1e-12);
}

// Each value is the mean of all before it, the one k steps back weighing weight^k.
TEST(Smooth, IsTheWeightedMeanOfThePast) {
  constexpr double kWeight = 0.7;
  const std::vector<double> y = {2, -3, 5, 0.25, 11, 7, -1};
  const std::vector<double> smooth = Smooth(y, kWeight);
  ASSERT_EQ(smooth.size(), y.size());
  for (size_t i = 0; i < y.size(); ++i) {
    double sum = 0, total = 0;
    for (size_t k = 0; k <= i; ++k) {
      sum += y[i - k] * std::pow(kWeight, static_cast<double>(k));
      total += std::pow(kWeight, static_cast<double>(k));
    }
    EXPECT_NEAR(smooth[i], sum / total, 1e-12) << i;
  }
}

// A mean that depends on what comes later, or on how long the run is, shows what was not there.
TEST(Smooth, DoesNotDependOnWhatComesLater) {
  const std::vector<double> y = {2, -3, 5, 0.25, 11};
  const std::vector<double> all = Smooth(y, 0.9);
  const std::vector<double> begin = Smooth(std::span(y).first(3), 0.9);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(begin[i], all[i]);
}

TEST(Smooth, GapsStayGapsAndDoNotSpread) {
  const std::vector<double> smooth =
      Smooth(std::vector<double>{NAN, 1, NAN, INFINITY, 3, -INFINITY}, 0.5);
  EXPECT_TRUE(std::isnan(smooth[0]));
  EXPECT_EQ(smooth[1], 1);
  EXPECT_TRUE(std::isnan(smooth[2]));
  EXPECT_EQ(smooth[3], INFINITY);
  EXPECT_NEAR(smooth[4], (1 * 0.5 + 3) / 1.5, 1e-12);
  EXPECT_EQ(smooth[5], -INFINITY);
}

TEST(Smooth, AWeightOfOneIsRefused) {
  EXPECT_DEATH(Smooth(std::vector<double>{1}, 1), "weight");
}

}  // namespace
}  // namespace folio
