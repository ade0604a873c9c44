#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/backend/operands.h"
#include "folio/tensor/dtype.h"

namespace folio::cpu {

// Decoding and rounding, many numbers at a time, on the calling thread. The results equal those of
// tensor/dtype.h and operands.h bit for bit, except that a NaN may be another NaN.

// Does the same as DecodeFloats. REQUIRES: F16, BF16 or blocks, whole ones.
void DecodeStored(Dtype from, const std::byte* data, int64_t count, float* out);

// RoundNumbers out of place. REQUIRES: rounding is not kNone; whole blocks.
void RoundInto(Rounding rounding, const float* x, int64_t count, float* out);

// Rounds each number like ToBF16.
void RoundToHalves(const float* x, int64_t count, BF16* out);

// Rounds like kBlockFloat: a power of two for each block, and 32 integers 128 high + low, each from
// -64 to 64; zeros, and NaN, if a number is not finite.
void RoundToBlocks(const float* x, int64_t blocks, int8_t* high, int8_t* low, float* scales);

}  // namespace folio::cpu
