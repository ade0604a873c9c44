#pragma once

#include <cstdint>

#include "folio/tensor/dtype.h"

namespace folio::cpu {

// sums[c] += the sum over r of x[r, c], x being dense (rows, columns). On Threads() threads; rows
// are added in order.
void AddColumnSums(const float* x, int64_t rows, int64_t columns, float* sums);
void AddColumnSums(const BF16* x, int64_t rows, int64_t columns, float* sums);

}  // namespace folio::cpu
