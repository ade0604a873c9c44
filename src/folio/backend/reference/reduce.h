#pragma once

#include <algorithm>
#include <cstdint>

#include "folio/backend/reference/number.h"

namespace folio::reference {

template <class Number>
Wide<Number> SumOfSquares(const Number* x, int64_t count) {
  Wide<Number> sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += Wide<Number>(x[i]) * Wide<Number>(x[i]);
  return sum;
}

template <class Number>
void Scale(Number* x, int64_t count, double factor) {
  for (int64_t i = 0; i < count; ++i) x[i] = Number(Wide<Number>(x[i]) * factor);
}

template <class Number>
void Fill(Number* out, int64_t count, double value) {
  std::fill(out, out + count, Number(value));
}

}  // namespace folio::reference
