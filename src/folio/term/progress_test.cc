#include "folio/term/progress.h"

#include <gtest/gtest.h>

#include <cmath>

namespace folio {
namespace {

ProgressState Training() {
  return {"step",
          1240,
          10000,
          {{"loss", "4.2130", "loss 4.213"},
           {"eta_seconds", "3484", "eta 58m04s"},
           {"ema", "4.1980", ""},
           {"tokens_per_second", "41200", "41.2k tok/s"}}};
}

TEST(ProgressBar, ShowsEverythingWhereThereIsRoom) {
  EXPECT_EQ(RenderProgressBar(Training(), 120, false),
            " 12% ##------------------   1,240/10,000  loss 4.213  eta 58m04s  41.2k tok/s");
  EXPECT_EQ(RenderProgressBar(Training(), 120, true),
            " 12% ██▍                    1,240/10,000  loss 4.213  eta 58m04s  41.2k tok/s");
}

TEST(ProgressBar, NarrowTerminalsDropFieldsFromTheRight) {
  // One column stays free, so 77 columns of text need a width of 78.
  EXPECT_EQ(RenderProgressBar(Training(), 78, false),
            " 12% ##------------------   1,240/10,000  loss 4.213  eta 58m04s  41.2k tok/s");
  EXPECT_EQ(RenderProgressBar(Training(), 77, false),
            " 12% ##------------------   1,240/10,000  loss 4.213  eta 58m04s");
}

TEST(ProgressBar, NarrowTerminalsKeepLossAndTimeAndDropTheBar) {
  EXPECT_EQ(RenderProgressBar(Training(), 60, false),
            " 12%  1,240/10,000  loss 4.213  eta 58m04s  41.2k tok/s");
  EXPECT_EQ(RenderProgressBar(Training(), 45, false), " 12%  1,240/10,000  loss 4.213  eta 58m04s");
  EXPECT_EQ(RenderProgressBar(Training(), 40, false), " 12% loss 4.213  eta 58m04s");
  EXPECT_EQ(RenderProgressBar(Training(), 20, false), " 12% loss 4.213");
  EXPECT_EQ(RenderProgressBar(Training(), 4, false), "");
}

TEST(ProgressBar, NeverFillsTheLastColumn) {
  for (int width = 1; width < 100; ++width) {
    EXPECT_LT(static_cast<int>(RenderProgressBar(Training(), width, false).size()), width);
  }
}

TEST(ProgressBar, EndsAndUnknownTotals) {
  ProgressState state{"step", 0, 3, {}};
  EXPECT_EQ(RenderProgressBar(state, 80, false), "  0% --------------------  0/3");
  state.done = 3;
  EXPECT_EQ(RenderProgressBar(state, 80, false), "100% ####################  3/3");
  state.done = 4;  // more than was announced
  EXPECT_EQ(RenderProgressBar(state, 80, false), "100% ####################  4/3");
  state.total = 0;
  EXPECT_EQ(RenderProgressBar(state, 80, false), "step 4");
}

TEST(ProgressPlain, IsKeysAndValues) {
  EXPECT_EQ(RenderProgressPlain(Training()),
            "step=1240/10000 loss=4.2130 eta_seconds=3484 ema=4.1980 tokens_per_second=41200");
  EXPECT_EQ(RenderProgressPlain({"bytes", 7, 0, {}}), "bytes=7");
}

TEST(ProgressJson, NumbersAreNumbersAndTheRestText) {
  EXPECT_EQ(
      RenderProgressJson({"step", 3, 9, {{"loss", "4.25", ""}, {"eta_seconds", "nan", ""}}}),
      R"({"eta_seconds":"nan","event":"progress","loss":4.25,"schema":1,"step":3,"total":9})");
}

TEST(Progress, PlainLinesComeAtMilestonesAndEveryFewSeconds) {
  Console console;
  double now = 100;
  Progress progress(console, ProgressMode::kPlain, [&] { return now; });
  testing::internal::CaptureStderr();
  progress.Show({"step", 1, 9, {}});
  progress.Show({"step", 2, 9, {}}, /*milestone=*/true);
  now += 4.9;
  progress.Show({"step", 3, 9, {}});
  now += 0.2;
  progress.Show({"step", 4, 9, {}});
  progress.Show({"step", 5, 9, {}});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "step=2/9\nstep=4/9\n");
}

TEST(Progress, NoneShowsNothing) {
  Console console;
  Progress progress(console, ProgressMode::kNone, [] { return 0.0; });
  EXPECT_FALSE(progress.Due(/*milestone=*/true));
}

TEST(Progress, ABarIsDueTenTimesASecond) {
  Console console;
  double now = 100;
  Progress progress(console, ProgressMode::kBar, [&] { return now; });
  EXPECT_TRUE(progress.Due());
  progress.Show({"step", 1, 9, {}});
  EXPECT_FALSE(progress.Due(/*milestone=*/true));
  now += 0.11;
  EXPECT_TRUE(progress.Due());
}

TEST(RateMeter, LeavesTheWarmUpOut) {
  RateMeter rate(/*warm_up=*/2);
  rate.Add(10, 100);
  rate.Add(10, 100);
  EXPECT_FALSE(rate.known());
  EXPECT_TRUE(std::isnan(rate.Eta(50)));
  rate.Add(10, 2);
  EXPECT_DOUBLE_EQ(rate.rate(), 5);
  EXPECT_DOUBLE_EQ(rate.Eta(50), 10);
}

TEST(RateMeter, IsNotBiasedTowardsZeroAtTheStartAndForgetsSlowly) {
  RateMeter rate(0, 0.9);
  for (int i = 0; i < 3; ++i) rate.Add(8, 1);
  EXPECT_NEAR(rate.rate(), 8, 1e-12);
  for (int i = 0; i < 200; ++i) rate.Add(8, 4);
  EXPECT_NEAR(rate.rate(), 2, 1e-6);
}

}  // namespace
}  // namespace folio
