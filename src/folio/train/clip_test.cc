#include "folio/train/clip.h"

#include <gtest/gtest.h>

namespace folio {
namespace {

TEST(ClipScale, ShortensOnlyWhatIsTooLong) {
  EXPECT_EQ(ClipScale(0.5, 1), 1);
  EXPECT_EQ(ClipScale(1, 1), 1);
  EXPECT_EQ(ClipScale(100, 0), 1);
  EXPECT_EQ(ClipScale(0, 1), 1);
  EXPECT_NEAR(ClipScale(4, 1), 0.25, 1e-6);
  for (const double norm : {1 + 1e-15, 1.1, 3.0, 1e9}) {
    EXPECT_LE(ClipScale(norm, 1) * norm, 1) << norm;
    EXPECT_GT(ClipScale(norm, 1) * norm, 1 - 2e-6) << norm;
  }
}

}  // namespace
}  // namespace folio
