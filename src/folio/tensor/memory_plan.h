#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "folio/tensor/tensor.h"

namespace folio {

// Every buffer of a computation, known before it starts. A buffer lives over an inclusive range of
// ticks (the planner numbers operations in order); buffers whose lives do not overlap may share
// memory.
class MemoryPlan {
 public:
  struct Buffer {
    std::string name;
    Dtype dtype;
    Shape shape;
    int64_t first_tick = 0, last_tick = 0;
    // `bytes` is rounded up to kAlignment, plus one vector that kernels may read past the end.
    size_t bytes = 0;
    size_t offset = 0;  // from the start of the arena, set by Place
  };
  using Id = int;

  static constexpr size_t kAlignment = 64;
  static constexpr int64_t kAlways = INT64_MAX;  // as last_tick: lives to the end

  // Throws a kResource Error if the size, or that of all buffers together, nears 63 bits.
  Id Add(std::string name, Dtype dtype, Shape shape, int64_t first_tick = 0,
         int64_t last_tick = kAlways);

  // Replaces the range of ticks passed to Add.
  void SetLife(Id id, int64_t first_tick, int64_t last_tick);

  // Gives each buffer its offset: largest first, each at the lowest place free over its life.
  void Place();

  std::span<const Buffer> buffers() const { return buffers_; }
  const Buffer& operator[](Id id) const { return buffers_[static_cast<size_t>(id)]; }
  size_t arena_bytes() const { return arena_bytes_; }  // after Place
  size_t peak_bytes() const;  // the most bytes alive at one tick: a lower bound of the arena

 private:
  std::vector<Buffer> buffers_;
  size_t total_bytes_ = 0;  // sum of all buffers: an upper bound of every offset and size
  size_t arena_bytes_ = 0;
};

struct FreeArena {
  size_t mapped = 0;  // bytes of MapZeros; 0 where it was allocated
  void operator()(std::byte* p) const;
};

// Memory for a placed plan, allocated once and zeroed. Throws a kResource Error with the number of
// bytes if the system refuses.
class Arena {
 public:
  Arena() = default;
  explicit Arena(const MemoryPlan& plan);

  Tensor Get(const MemoryPlan& plan, MemoryPlan::Id id) const;

 private:
  std::unique_ptr<std::byte, FreeArena> memory_;
  size_t bytes_ = 0;
};

}  // namespace folio
