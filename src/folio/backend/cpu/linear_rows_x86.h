#pragma once

#include <cstdint>

#include "folio/tensor/dtype.h"

namespace folio::cpu {

// Rows of bfloat16 numbers on their way into products with a weight of the same (O,I): row n at
// numbers + n * stride, with zeros behind its numbers up to whole vectors of 32. Aligned to 64
// bytes.
struct HalfRows {
  const BF16* numbers = nullptr;
  int64_t rows = 0, stride = 0;
};

// out[n * ldo + r] = x[n] . weight[r], for `weight_rows` rows of I numbers, which follow each
// other. The products of each pair of numbers are added to one of sixteen sums, in the order of I;
// these are joined in one order. So a result is the same, bit for bit, beside whatever it is
// computed. REQUIRES: Bf16UnitInUse() is not kPlain.
void MultiplyHalfRows(const HalfRows& x, const BF16* weight, int64_t weight_rows, int64_t I,
                      float* out, int64_t ldo);

}  // namespace folio::cpu
