#include "folio/tensor/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "folio/base/error.h"
#include "folio/base/rng.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

MemoryPlan RandomPlan(uint64_t seed) {
  const CounterRng rng(seed, 0);
  MemoryPlan plan;
  for (uint64_t i = 0; i < 120; ++i) {
    const auto draw = [&](uint64_t kind, uint64_t n) {
      return static_cast<int64_t>(rng.Below(8 * i + kind, n));
    };
    const int64_t first = draw(0, 50);
    const int64_t last = draw(1, 10) == 0 ? MemoryPlan::kAlways : first + draw(2, 12);
    const Dtype dtype = draw(3, 2) == 0 ? Dtype::kF32 : Dtype::kU8;
    plan.Add(std::to_string(i), dtype, Shape{draw(4, 40), 1 + draw(5, 37)}, first, last);
  }
  plan.Place();
  return plan;
}

bool MeetInTime(const MemoryPlan::Buffer& a, const MemoryPlan::Buffer& b) {
  return a.first_tick <= b.last_tick && b.first_tick <= a.last_tick;
}
bool MeetInMemory(const MemoryPlan::Buffer& a, const MemoryPlan::Buffer& b) {
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

TEST(MemoryPlan, BuffersAliveTogetherNeverOverlap) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const MemoryPlan plan = RandomPlan(seed);
    for (const auto& a : plan.buffers()) {
      for (const auto& b : plan.buffers()) {
        if (&a == &b || !MeetInTime(a, b)) continue;
        ASSERT_FALSE(MeetInMemory(a, b)) << seed << ": " << a.name << " and " << b.name;
      }
    }
  }
}

TEST(MemoryPlan, ArenaHoldsEveryBufferAndIsNearThePeak) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const MemoryPlan plan = RandomPlan(seed);
    size_t end = 0, total = 0;
    for (const auto& buffer : plan.buffers()) {
      EXPECT_EQ(buffer.offset % MemoryPlan::kAlignment, 0u);
      EXPECT_EQ(buffer.bytes % MemoryPlan::kAlignment, 0u);
      EXPECT_GE(buffer.bytes,
                static_cast<size_t>(buffer.shape.count()) * DtypeSize(buffer.dtype) + 64);
      end = std::max(end, buffer.offset + buffer.bytes);
      total += buffer.bytes;
    }
    EXPECT_EQ(plan.arena_bytes(), end);
    EXPECT_GE(plan.arena_bytes(), plan.peak_bytes());
    EXPECT_LE(plan.arena_bytes(), plan.peak_bytes() + plan.peak_bytes() / 2);
    EXPECT_LT(plan.arena_bytes(), total);
  }
}

TEST(MemoryPlan, PeakIsTheFullestTick) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const MemoryPlan plan = RandomPlan(seed);
    size_t peak = 0;
    for (int64_t tick = 0; tick < 70; ++tick) {
      size_t alive = 0;
      for (const auto& buffer : plan.buffers()) {
        if (buffer.first_tick <= tick && tick <= buffer.last_tick) alive += buffer.bytes;
      }
      peak = std::max(peak, alive);
    }
    EXPECT_EQ(plan.peak_bytes(), peak);
  }
}

TEST(MemoryPlan, IsDeterministicAndMayBePlacedAgain) {
  MemoryPlan a = RandomPlan(7);
  const MemoryPlan b = RandomPlan(7);
  a.Place();
  ASSERT_EQ(a.buffers().size(), b.buffers().size());
  for (size_t i = 0; i < a.buffers().size(); ++i) {
    EXPECT_EQ(a.buffers()[i].offset, b.buffers()[i].offset);
  }
  EXPECT_EQ(a.arena_bytes(), b.arena_bytes());
}

// Lives are inclusive: a buffer that an operation reads cannot share memory with one that it
// writes.
TEST(MemoryPlan, MemoryIsSharedOnlyAfterTheLastTick) {
  MemoryPlan plan;
  const auto a = plan.Add("a", Dtype::kF32, {100}, 0, 1);
  const auto b = plan.Add("b", Dtype::kF32, {100}, 1, 2);
  const auto c = plan.Add("c", Dtype::kF32, {100}, 2, 3);
  plan.Place();
  EXPECT_NE(plan[a].offset, plan[b].offset);
  EXPECT_EQ(plan[a].offset, plan[c].offset);
  EXPECT_EQ(plan.arena_bytes(), 2 * plan[a].bytes);
  EXPECT_EQ(plan.arena_bytes(), plan.peak_bytes());
}

TEST(MemoryPlan, SizesBeyond63BitsAreErrorsThatNameTheBuffer) {
  MemoryPlan plan;
  const int64_t big = int64_t{1} << 32;
  for (const Shape& shape :
       {Shape{big, big}, Shape{INT64_MAX}, Shape{INT64_MAX, INT64_MAX, 2}, Shape{big, big / 2}}) {
    const Error error =
        Refused([&] { plan.Add("scores", Dtype::kF32, shape); }, ErrorKind::kResource);
    EXPECT_TRUE(Contains(error.what(), "'scores'"));
    EXPECT_TRUE(Contains(error.cause(), shape.ToString()));
  }
  EXPECT_TRUE(plan.buffers().empty());
}

TEST(MemoryPlan, TotalsBeyond63BitsAreErrors) {
  MemoryPlan plan;
  const int64_t huge = INT64_MAX / 8;
  EXPECT_THROW(
      {
        for (int i = 0; i < 20; ++i) plan.Add("part", Dtype::kU8, Shape{huge});
        plan.Place();
      },
      Error);
}

TEST(MemoryPlan, DyingBeforeBirthIsRefused) {
  MemoryPlan plan;
  EXPECT_DEATH(plan.Add("x", Dtype::kF32, {1}, 3, 2), "dies before it is born");
}

TEST(Arena, IsAlignedZeroAndWritableThroughout) {
  const MemoryPlan plan = RandomPlan(11);
  const Arena arena(plan);
  for (int id = 0; id < static_cast<int>(plan.buffers().size()); ++id) {
    const Tensor x = arena.Get(plan, id);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(x.raw()) % MemoryPlan::kAlignment, 0u);
    EXPECT_EQ(x.shape(), plan[id].shape);
    EXPECT_EQ(x.dtype(), plan[id].dtype);
    for (size_t i = 0; i < plan[id].bytes; ++i) ASSERT_EQ(x.raw()[i], std::byte{0});
  }
  for (int id = 0; id < static_cast<int>(plan.buffers().size()); ++id) {
    std::fill_n(arena.Get(plan, id).raw(), plan[id].bytes, std::byte{255});
  }
}

TEST(Arena, OfAnEmptyPlanIsEmpty) {
  MemoryPlan plan;
  plan.Place();
  EXPECT_EQ(plan.arena_bytes(), 0u);
  EXPECT_EQ(plan.peak_bytes(), 0u);
  const Arena arena(plan);
}

TEST(Arena, MoreThanTheSystemHasIsAResourceError) {
  MemoryPlan plan;
  plan.Add("x", Dtype::kU8, {int64_t{1} << 52});
  plan.Place();
  EXPECT_TRUE(Contains(ErrorOf([&] { const Arena arena(plan); }, ErrorKind::kResource), "4.50 PB"));
}

}  // namespace
}  // namespace folio
