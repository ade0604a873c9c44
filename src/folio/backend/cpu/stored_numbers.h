#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/backend/operands.h"
#include "folio/tensor/dtype.h"

namespace folio::cpu {

// Decoding and rounding, many numbers at a time, on the calling thread. What comes out is what
// tensor/dtype.h and operands.h make of them, bit for bit, but for which NaN stands for NaN.

// A binary16 number as it lies in a weight.
struct F16 {
  uint16_t bits = 0;
};

// DecodeStored does as DecodeFloats. REQUIRES: F16, BF16 or blocks, whole ones.
void DecodeStored(Dtype from, const std::byte* data, int64_t count, float* out);

// RoundInto does as RoundNumbers, out of place. REQUIRES: rounding is not kNone; whole blocks.
void RoundInto(Rounding rounding, const float* x, int64_t count, float* out);

// RoundToHalves rounds each number as ToBF16 does.
void RoundToHalves(const float* x, int64_t count, BF16* out);

// RoundToBlocks rounds as kBlockFloat does: it gives a power of two for each block, and 32 integers
// 128 high + low, each from -64 to 64; zeros, and NaN, where a number is not finite.
void RoundToBlocks(const float* x, int64_t blocks, int8_t* high, int8_t* low, float* scales);

}  // namespace folio::cpu
