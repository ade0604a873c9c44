#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/tensor/dtype.h"

namespace folio::cpu {

// Decoding and rounding, many numbers at a time, on the calling thread. What comes out is what
// tensor/dtype.h makes of them, bit for bit, but for which NaN stands for NaN.

// DecodeStored does as DecodeFloats. REQUIRES: BF16 or blocks, whole ones.
void DecodeStored(Dtype from, const std::byte* data, int64_t count, float* out);

// RoundStored does as RoundTo, out of place. REQUIRES: BF16 or Q8_0; whole blocks.
void RoundStored(Dtype to, const float* x, int64_t count, float* out);

// RoundToHalves rounds each number as ToBF16 does.
void RoundToHalves(const float* x, int64_t count, BF16* out);

// RoundToBlocks does as EncodeFloats to Q8_0: it gives 32 integers and a scale, which binary16
// holds, for each block; zeros, and NaN, for one that cannot be quantised.
void RoundToBlocks(const float* x, int64_t blocks, int8_t* numbers, float* scales);

}  // namespace folio::cpu
