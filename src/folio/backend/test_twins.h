#pragma once

// Tests that an operation on bfloat16 does what its twin on float32 does, and rounds once, share
// these functions.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string_view>
#include <vector>

#include "folio/backend/test_op_cases.h"
#include "folio/backend/test_values.h"

namespace folio {

// x in another array of `dtype`; what x has not set stays NaN.
inline Tensor Converted(OpMemory& memory, const Tensor& x, Dtype dtype) {
  const Tensor copy = memory.Unset(dtype, x.shape());
  const std::vector<double> numbers = Values(x);
  for (int64_t i = 0; i < x.count(); ++i) memory.Set(copy, i, numbers[static_cast<size_t>(i)]);
  return copy;
}

// ExpectTwin expects in `actual` the numbers of the float32 array `expected`, rounded if `actual`
// is bfloat16, bit for bit but for the kind of NaN.
template <class View, class Twin>
void ExpectTwin(std::string_view name, const View& expected, const Twin& actual) {
  const bool rounded = Operand{name, Access::kRead, actual}.dtype() == Dtype::kBF16;
  const std::vector<double> exact = Values(expected), found = Values(actual);
  ASSERT_EQ(exact.size(), found.size());
  for (size_t i = 0; i < exact.size(); ++i) {
    const double want = rounded ? ToFloat(ToBF16(static_cast<float>(exact[i]))) : exact[i];
    if (std::isnan(want) && std::isnan(found[i])) continue;
    ASSERT_EQ(std::bit_cast<uint64_t>(want), std::bit_cast<uint64_t>(found[i]))
        << name << "[" << i << "]: " << found[i] << " instead of " << want << ", from " << exact[i];
  }
}

}  // namespace folio
