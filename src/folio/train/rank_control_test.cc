#include "folio/train/rank_control.h"

#include <gtest/gtest.h>

#include "folio/base/error.h"
#include "folio/dist/thread_ranks.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

// Were a flag left out of RankFlags::kAll, some ranks would stop and the others wait for them.
TEST(RankControls, AFlagOfOneIsAFlagOfAll) {
  for (const auto flag : RankFlags::kAll) {
    RunOnThreads(3, [&](Group& group) {
      RankFlags mine;
      mine.*flag = group.rank() == 2;
      const RankFlags all = RankControl(&group).Poll(mine);
      for (const auto other : RankFlags::kAll) EXPECT_EQ(all.*other, other == flag);
    });
    RankFlags mine;
    mine.*flag = true;
    EXPECT_TRUE(RankControl(nullptr).Poll(mine).*flag);
  }
  static_assert(sizeof(RankFlags) == RankFlags::kAll.size() * sizeof(bool), "flags are missing");
}

TEST(RankControls, ARankThatDiffersIsNamedWithTheCheckpoint) {
  std::vector<float> same = {1, 2}, other = {1, 3};
  RunOnThreads(4, [&](Group& group) {
    const RankControl control(&group);
    const auto require = [&](std::vector<float>& weights, int parts) {
      control.RequireSameBytes(Tensor(weights.data(), {2}), parts, 7, "there is none");
    };
    require(same, 1);
    std::vector<float>& mine = group.rank() % 2 == 0 ? same : other;
    require(mine, 2);  // of two parts, ranks 0 and 2 have one, 1 and 3 the other
    const std::string error = ErrorOf([&] { require(mine, 1); }, ErrorKind::kRuntime);
    EXPECT_TRUE(Contains(error, group.NameOf(1), "at step 7"));
  });
}

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
