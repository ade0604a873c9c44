#include "folio/base/percentile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace folio {
namespace {

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
