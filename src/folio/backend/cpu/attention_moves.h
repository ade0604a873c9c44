#pragma once

#include <cstdint>

#include "folio/tensor/dtype.h"

namespace folio::cpu {

// These functions do what attention does with rows beside products and softmax, on the calling
// thread.

// x[r * columns + c] *= factors[c]. REQUIRES: columns is a multiple of 16.
void ScaleColumns(const float* factors, int64_t rows, int64_t columns, float* x);

// to[c * to_stride + r] = x[r * stride + c]; the second form rounds, by way of (columns, rows)
// floats of scratch.
void Transpose(const float* x, int64_t stride, int64_t rows, int64_t columns, float* to,
               int64_t to_stride);
void Transpose(const float* x, int64_t stride, int64_t rows, int64_t columns, BF16* to,
               int64_t to_stride, float* scratch);
// to[r * to_stride + c] = x[r * stride + c].
void CopyRows(const float* x, int64_t stride, int64_t rows, int64_t columns, float* to,
              int64_t to_stride);
void CopyRows(const float* x, int64_t stride, int64_t rows, int64_t columns, BF16* to,
              int64_t to_stride);
// dots[r] = sum over c of x[r * x_stride + c] * y[r * y_stride + c].
void DotRows(const float* x, int64_t x_stride, const float* y, int64_t y_stride, int64_t rows,
             int64_t columns, float* dots);
void DotRows(const BF16* x, int64_t x_stride, const BF16* y, int64_t y_stride, int64_t rows,
             int64_t columns, float* dots);

}  // namespace folio::cpu
