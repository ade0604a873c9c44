#include "folio/bench/memory_pass.h"

#include <atomic>
#include <cstring>

#include "folio/base/math.h"
#include "folio/base/thread_pool.h"

namespace folio {
namespace {

// Elements that one thread takes at a time: small beside any cache, large beside the taking.
constexpr int64_t kPassGrain = 1 << 15;

}  // namespace

double MemoryPass::bytes_per_second() const {
  return bytes / Median(seconds);
}

uint32_t ReadAll(const float* x, int64_t n) {
  std::atomic<uint32_t> total = 0;
  ParallelRange(n, kPassGrain, [&](int64_t begin, int64_t end, int) {
    uint32_t sum = 0;
    for (int64_t i = begin; i < end; ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, x + i, sizeof(bits));
      sum += bits;
    }
    total.fetch_add(sum, std::memory_order_relaxed);
  });
  return total;
}

void CopyAll(const float* from, float* to, int64_t n) {
  ParallelRange(n, kPassGrain, [&](int64_t begin, int64_t end, int) {
    std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin) * sizeof(float));
  });
}

}  // namespace folio
