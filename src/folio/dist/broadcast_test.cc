#include "folio/dist/broadcast.h"

#include <gtest/gtest.h>

#include "folio/base/error.h"
#include "folio/dist/thread_ranks.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

TEST(Broadcasts, AllHearTheFirst) {
  EXPECT_EQ(Broadcast(nullptr, "mine"), "mine");
  EXPECT_EQ(BroadcastResult(nullptr, [] { return "found"; }), "found");
  RunOnThreads(3, [](Group& group) {
    EXPECT_EQ(Broadcast(&group, std::to_string(group.rank())), "0");
    int calls = 0;
    const auto find = [&] { return "found " + std::to_string(++calls); };
    EXPECT_EQ(BroadcastResult(&group, find), "found 1");
    EXPECT_EQ(calls, group.first() ? 1 : 0);
  });
}

// Ranks that did not hear of it would wait for the first for ever.
TEST(Broadcasts, AnErrorOfTheFirstIsOneOfAll) {
  RunOnThreads(3, [](Group& group) {
    const auto fail = []() -> std::string { throw InputError("nothing here", "a cause"); };
    EXPECT_TRUE(Contains(ErrorOf([&] { BroadcastResult(&group, fail); }, ErrorKind::kInput),
                         "nothing here: a cause"));
    EXPECT_EQ(Broadcast(&group, "on"), "on");
  });
}

}  // namespace
}  // namespace folio
