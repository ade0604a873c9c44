#pragma once

#include <gtest/gtest.h>

#include <string>

#include "folio/backend/fenced_backend.h"

namespace folio {

// The orders of fenced backends as the parameter of a test, and their names.
inline auto FencedOrders() {
  return testing::Values(FencedOrder::kAtOnce, FencedOrder::kLate);
}
inline std::string OrderName(FencedOrder order) {
  return order == FencedOrder::kLate ? "late" : "at_once";
}
inline std::string FencedOrderName(const testing::TestParamInfo<FencedOrder>& test) {
  return OrderName(test.param);
}

}  // namespace folio
