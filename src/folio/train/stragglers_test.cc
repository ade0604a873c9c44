#include "folio/train/stragglers.h"

#include <gtest/gtest.h>

namespace folio {
namespace {

TEST(Stragglers, WhoIsSlowForLongIsNamedOnce) {
  Stragglers stragglers;
  for (int64_t step = 1; step <= 3 * Stragglers::kSteps; ++step) {
    const std::vector<int> found = stragglers.Add({1, 1.1, 1.3, 1});
    EXPECT_EQ(found, step == Stragglers::kSteps ? std::vector<int>{2} : std::vector<int>{});
  }
  EXPECT_TRUE(stragglers.Add({1, 1, 1, 1}).empty());
}

TEST(Stragglers, ASlowStepNowAndThenIsNone) {
  Stragglers stragglers;
  for (int64_t step = 0; step < 100; ++step) {
    EXPECT_TRUE(stragglers.Add({1, step % Stragglers::kSteps == 0 ? 1.0 : 9.0, 1}).empty());
  }
}

}  // namespace
}  // namespace folio
