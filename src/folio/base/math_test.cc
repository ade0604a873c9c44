#include "folio/base/math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "folio/base/test_simd_targets.h"

namespace folio {
namespace {

class ExponentialsOn : public OnSimdTarget {};
INSTANTIATE_TEST_SUITE_P(, ExponentialsOn, EverySimdTarget(), SimdTargetName);

TEST_P(ExponentialsOn, AreThoseOfTheStandardLibrary) {
  std::vector<double> x = {0, -0.0, -std::numeric_limits<double>::infinity(), 1, -1e-300};
  for (double y = -700; y < 700; y += 0.37) x.push_back(y);
  for (const size_t n : {size_t{0}, size_t{1}, size_t{7}, x.size()}) {
    std::vector<double> found = x;
    Exponentials(found.data(), n);
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = i < n ? std::exp(x[i]) : x[i];
      if (found[i] == expected) continue;  // infinity among them
      EXPECT_NEAR(found[i], expected, 3e-16 * std::abs(expected)) << x[i];
    }
  }
}

TEST(Percentile, LiesBetweenNeighbours) {
  EXPECT_EQ(Percentile({3, 1, 2}, 0.5), 2);
  EXPECT_EQ(Percentile({4, 1}, 0.5), 2.5);
  EXPECT_EQ(Percentile({5}, 0.9), 5);
  EXPECT_EQ(Percentile({5, 1, 3}, 0), 1);
  EXPECT_EQ(Percentile({5, 1, 3}, 1), 5);
}

TEST(Percentile, NumbersThatAreNoneAreTheLargest) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  EXPECT_EQ(Median({nan, 2, inf}), inf);
  EXPECT_EQ(Median({inf, 1, inf, nan}), inf);
  EXPECT_EQ(Median({nan, 1, nan, 2, 3}), 3);
  EXPECT_TRUE(std::isnan(Percentile({nan, 1}, 1)));
}

}  // namespace
}  // namespace folio
