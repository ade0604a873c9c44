#pragma once

#include <cstddef>

namespace folio {

// Each quantises a block of numbers as ggml's reference (quantize_row_..._ref) does, byte for byte.
// Returns false if a number is not finite or a scale or minimum is beyond binary16, and then writes
// NaN for the first of these, and zeros.
bool EncodeQ80(const float* numbers, std::byte* block);
bool EncodeQ40(const float* numbers, std::byte* block);
bool EncodeQ41(const float* numbers, std::byte* block);
bool EncodeQ50(const float* numbers, std::byte* block);
bool EncodeQ51(const float* numbers, std::byte* block);
bool EncodeQ4K(const float* numbers, std::byte* block);
bool EncodeQ5K(const float* numbers, std::byte* block);
bool EncodeQ6K(const float* numbers, std::byte* block);

}  // namespace folio
