#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "folio/base/rng.h"
#include "folio/plot/lines.h"

namespace folio {
namespace {

// "x,y x,y / x,y": a slash is a gap.
std::string Print(std::span<const PlotPoint> points) {
  std::string text;
  for (const PlotPoint& p : points) {
    if (!text.empty()) text += ' ';
    text += std::isfinite(p.y) ? std::to_string(static_cast<int>(p.x * 10)) + "," +
                                     std::to_string(static_cast<int>(p.y))
                               : "/";
  }
  return text;
}

std::string Reduced(std::vector<PlotPoint> points) {
  return Print(ReduceLine(points, 1.0));
}

TEST(ReduceLine, LeavesSparsePointsAlone) {
  EXPECT_EQ(Reduced({}), "");
  EXPECT_EQ(Reduced({{0, 5}}), "0,5");
  EXPECT_EQ(Reduced({{0, 5}, {1, 4}, {2, 6}}), "0,5 10,4 20,6");
}

TEST(ReduceLine, KeepsFirstLowHighLastInOrder) {
  EXPECT_EQ(Reduced({{0.1, 5}, {0.2, 9}, {0.3, 6}, {0.4, 1}, {0.5, 3}, {0.6, 4}, {1.5, 7}}),
            "1,5 2,9 4,1 6,4 15,7");
  EXPECT_EQ(Reduced({{0.1, 5}, {0.2, 5}, {0.3, 5}}), "1,5 3,5");
}

TEST(ReduceLine, GapsStay) {
  EXPECT_EQ(Reduced({{0, 1}, {1, NAN}, {2, 3}}), "0,1 / 20,3");
  EXPECT_EQ(Reduced({{0, 1}, {NAN, 1}, {NAN, NAN}, {2, 3}, {3, NAN}}), "0,1 / 20,3 /");
  EXPECT_EQ(Reduced({{0, NAN}, {1, 2}}), "10,2");
  EXPECT_EQ(Reduced({{0, NAN}, {1, NAN}}), "");
  EXPECT_EQ(Reduced({{0, 1}, {1, std::numeric_limits<double>::infinity()}, {2, 3}}), "0,1 / 20,3");
}

TEST(ReduceLine, GapsNarrowerThanAColumnAreNotSeen) {
  EXPECT_EQ(Reduced({{0.1, 1}, {0.2, NAN}, {0.3, 2}, {0.4, NAN}, {1.1, 3}}), "1,1 3,2 / 11,3");
}

TEST(ReduceLine, AMillionPointsKeepEverySpike) {
  const CounterRng rng(1, 0);
  std::vector<PlotPoint> points(1000000);
  for (size_t i = 0; i < points.size(); ++i) {
    points[i] = {static_cast<double>(i) * 700 / 1e6, rng.Uniform(i)};
  }
  points[123457].y = 1000;
  points[777777].y = -1000;
  points[999999].y = 500;
  const std::vector<PlotPoint> reduced = ReduceLine(points, 1.0);
  EXPECT_LE(reduced.size(), 4 * 701u);
  int spikes = 0;
  double last_x = 0;
  for (const PlotPoint& p : reduced) {
    if (std::abs(p.y) > 1) ++spikes;
    EXPECT_GE(p.x, last_x);
    last_x = p.x;
  }
  EXPECT_EQ(spikes, 3);
}

TEST(ReduceLine, AnyOrderOfXIsBounded) {
  const CounterRng rng(2, 0);
  std::vector<PlotPoint> points(300000);
  for (size_t i = 0; i < points.size(); ++i) {
    points[i] = {700 * rng.Uniform(2 * i), rng.Uniform(2 * i + 1)};
    if (i % 2 == 1) points[i].y = NAN;
  }
  points[150000].y = 1000;
  const std::vector<PlotPoint> reduced = ReduceLine(points, 1.0);
  EXPECT_LE(reduced.size(), 5 * 4001u);
  int spikes = 0;
  for (const PlotPoint& p : reduced) spikes += p.y > 1 ? 1 : 0;
  EXPECT_EQ(spikes, 1);
}

}  // namespace
}  // namespace folio
