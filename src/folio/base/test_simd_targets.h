#pragma once

#include <gtest/gtest.h>

#include <string>

#include "folio/base/simd_targets.h"

namespace folio {

// A test that runs on one SIMD target of the machine at a time:
//   class Sums : public OnSimdTarget {};
//   INSTANTIATE_TEST_SUITE_P(, Sums, EverySimdTarget(), SimdTargetName);
class OnSimdTarget : public testing::TestWithParam<std::string> {
 protected:
  OnSimdTarget() { ForceSimdTarget(GetParam()); }
  ~OnSimdTarget() override { ForceSimdTarget(""); }
};

// Restores the best SIMD target when it is destroyed.
class KeptSimdTarget {
 public:
  ~KeptSimdTarget() { ForceSimdTarget(""); }
};

inline auto EverySimdTarget() {
  return testing::ValuesIn(SimdTargets());
}
inline std::string SimdTargetName(const testing::TestParamInfo<std::string>& target) {
  return target.param;
}

}  // namespace folio
