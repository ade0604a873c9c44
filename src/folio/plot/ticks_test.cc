#include "folio/plot/ticks.h"

#include <gtest/gtest.h>

#include <cmath>

#include "folio/base/rng.h"
#include "folio/base/strings.h"

namespace folio {
namespace {

std::string Labels(const std::vector<Tick>& ticks) {
  std::vector<std::string> labels;
  for (const Tick& tick : ticks) labels.push_back(tick.label);
  return Join(labels, " ");
}

TEST(LinearTicks, StepsAreOneTwoFive) {
  EXPECT_EQ(Labels(LinearTicks(0, 10, 5)), "0 2 4 6 8 10");
  EXPECT_EQ(Labels(LinearTicks(0, 2000, 4)), "0 500 1000 1500 2000");
  EXPECT_EQ(Labels(LinearTicks(1.3, 4.3, 6)), "1.5 2.0 2.5 3.0 3.5 4.0");
  EXPECT_EQ(Labels(LinearTicks(0, 1, 10)), "0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1.0");
  EXPECT_EQ(Labels(LinearTicks(-0.3, 0.1, 4)),
            "\xE2\x88\x92"
            "0.3 \xE2\x88\x92"
            "0.2 \xE2\x88\x92"
            "0.1 0 0.1");
}

TEST(LinearTicks, LabelsSuitTheSize) {
  EXPECT_EQ(Labels(LinearTicks(0, 1e6, 5)), "0 0.2M 0.4M 0.6M 0.8M 1.0M");
  EXPECT_EQ(Labels(LinearTicks(0, 2.5e6, 5)), "0 0.5M 1.0M 1.5M 2.0M 2.5M");
  EXPECT_EQ(Labels(LinearTicks(0, 9e5, 5)), "0 200k 400k 600k 800k");
  EXPECT_EQ(Labels(LinearTicks(0, 80000, 4)), "0 20000 40000 60000 80000");
  EXPECT_EQ(Labels(LinearTicks(0, 6e-4, 3)), "0 2e-4 4e-4 6e-4");
  EXPECT_EQ(Labels(LinearTicks(9.0e-5, 1.1e-4, 2)), "9e-5 1e-4 1.1e-4");
  EXPECT_EQ(Labels(LinearTicks(0, 3e20, 3)), "0 1e20 2e20 3e20");
  EXPECT_EQ(Labels(LinearTicks(1000000, 1000002, 2)), "1.000000M 1.000001M 1.000002M");
}

TEST(LinearTicks, LieInsideEvenlyAndNotTooMany) {
  const CounterRng rng(1, 0);
  for (uint64_t i = 0; i < 3000; ++i) {
    const double magnitude = std::pow(10.0, static_cast<double>(rng.Below(3 * i, 560)) - 280);
    const double low = rng.Normal(3 * i + 1) * magnitude;
    const double width = (0.001 + rng.Uniform(3 * i + 2)) * magnitude;
    const int count = 2 + static_cast<int>(i % 9);
    const std::vector<Tick> ticks = LinearTicks(low, low + width, count);
    ASSERT_LE(ticks.size(), static_cast<size_t>(count) + 1) << low << " " << width;
    ASSERT_GE(ticks.size(), static_cast<size_t>(count) * 2 / 5) << low << " " << width;
    for (size_t t = 0; t < ticks.size(); ++t) {
      ASSERT_GE(ticks[t].value, low - 1e-6 * width);
      ASSERT_LE(ticks[t].value, low + 1.000001 * width);
      if (t == 0) continue;
      ASSERT_NE(ticks[t].label, ticks[t - 1].label) << low << " " << width;
    }
  }
}

TEST(LogTicks, AreDecades) {
  EXPECT_EQ(Labels(LogTicks(1, 2000, 8)), "1 10 100 1000");
  EXPECT_EQ(Labels(LogTicks(0.0005, 20, 8)), "0.001 0.01 0.1 1 10");
  EXPECT_EQ(Labels(LogTicks(1e-6, 1e-4, 8)), "1e-6 1e-5 1e-4");
  EXPECT_EQ(Labels(LogTicks(1e3, 1e6, 8)), "1000 10000 100k 1M");
}

TEST(LogTicks, WideRangesSkipDecades) {
  const std::vector<Tick> ticks = LogTicks(1e-300, 1e300, 6);
  EXPECT_LE(ticks.size(), 7u);
  EXPECT_GE(ticks.size(), 5u);
}

TEST(LogTicks, NarrowRangesGetMore) {
  EXPECT_EQ(Labels(LogTicks(3, 60, 8)), "5 10 20 50");
  EXPECT_EQ(Labels(LogTicks(0.15, 0.6, 8)), "0.2 0.5");
  EXPECT_EQ(Labels(LogTicks(1.6, 4.3, 6)), "2.0 2.5 3.0 3.5 4.0");
}

}  // namespace
}  // namespace folio
