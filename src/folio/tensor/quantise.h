#pragma once

#include <cstddef>

namespace folio {

// Quantises a block of numbers as ggml's reference does it, byte for byte. False where a number of
// it is not finite or its scale is beyond binary16, with NaN for the scale, and zeros.
bool EncodeQ80(const float* numbers, std::byte* block);
bool EncodeQ40(const float* numbers, std::byte* block);

}  // namespace folio
