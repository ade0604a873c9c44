#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/base/test_simd_targets.h"

namespace folio {
namespace {

class LargeFill : public OnSimdTarget {};

// The array is so large that Fill goes past the caches, in vectors that begin at a boundary of
// their own.
TEST_P(LargeFill, WritesEveryElementAndNothingElse) {
  const int64_t n = (4 << 20) + 21;
  std::vector<float> memory(static_cast<size_t>(n) + 64);
  for (const int64_t begin : {1, 16}) {
    std::fill(memory.begin(), memory.end(), 1.0f);
    MakeCpuBackend()->Run(Fill{.out = Tensor(memory.data() + begin, {n}), .value = 2});
    const auto first = memory.begin() + begin, last = first + n;
    EXPECT_EQ(std::count(first, last, 2.0f), n);
    EXPECT_EQ(std::count(memory.begin(), first, 1.0f), begin);
    EXPECT_EQ(std::count(last, memory.end(), 1.0f), memory.end() - last);
  }
}

INSTANTIATE_TEST_SUITE_P(, LargeFill, EverySimdTarget(), SimdTargetName);

}  // namespace
}  // namespace folio
