#pragma once

#include <cstdint>

#include "folio/tensor/bf16.h"

namespace folio::cpu {

// x[r, c] += row[c], for rows of `columns` elements that lie `stride` apart. On the calling thread.
void AddRow(const float* row, float* x, int64_t rows, int64_t columns, int64_t stride);

// sums[c] += the sum over r of x[r, c], x being dense (rows, columns). On Threads() threads; rows
// are added in order.
void AddColumnSums(const float* x, int64_t rows, int64_t columns, float* sums);
void AddColumnSums(const BF16* x, int64_t rows, int64_t columns, float* sums);

}  // namespace folio::cpu
