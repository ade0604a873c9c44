// When a process's resources count as level.
#include "tests/soak/level.h"

#include <gtest/gtest.h>

namespace folio::soak {
namespace {

std::vector<Reading> Readings(int count, double megabytes, double more_each) {
  std::vector<Reading> readings;
  for (int i = 0; i < count; ++i) {
    readings.push_back({megabytes + more_each * i + (i % 7) * 0.1, 5 + i % 2, 3});
  }
  return readings;
}

TEST(SoakLevel, WarmingUpAndWavesAreLevel) {
  std::vector<Reading> readings = Readings(90, 100, 0);
  for (int i = 0; i < 30; ++i) readings[static_cast<size_t>(i)].megabytes = 10 + i;
  EXPECT_EQ(LevelOf(readings).Wrong(), "");
}

TEST(SoakLevel, ALeakIsNot) {
  // 4 MB and 2 % of 100 MB in a third of the readings.
  EXPECT_EQ(LevelOf(Readings(90, 100, 0.19)).Wrong(), "");
  EXPECT_NE(LevelOf(Readings(90, 100, 0.25)).Wrong(), "");
}

TEST(SoakLevel, OneHandleOrThreadMoreIsNot) {
  std::vector<Reading> handles = Readings(9, 100, 0), threads = handles;
  for (size_t i = 6; i < 9; ++i) {
    handles[i].handles = 6;
    threads[i].threads = 4;
  }
  EXPECT_EQ(LevelOf(handles).Wrong(), "file handles grew from 5 to 6");
  EXPECT_EQ(LevelOf(threads).Wrong(), "threads grew from 3 to 4");
}

}  // namespace
}  // namespace folio::soak
