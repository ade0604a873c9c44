#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "folio/tensor/dtype.h"

namespace folio {

bool IsFloating(Dtype dtype);  // F64, F32, F16, BF16

// Decodes out.size() little-endian numbers of a floating dtype from memory of any alignment.
// Widening is exact (NaN payloads too); F64 to float rounds to nearest even, too large becomes
// infinite. REQUIRES: IsFloating(from).
void DecodeFloats(const std::byte* data, Dtype from, std::span<float> out);
void DecodeFloats(const std::byte* data, Dtype from, std::span<double> out);

// Encodes float32 numbers as `to`, F32, F16 or BF16, little-endian, at `out`, which has room for
// them: to the nearest, of two that are equally near the even one; what is too large for F16
// becomes infinite, a NaN stays one.
void EncodeFloats(std::span<const float> numbers, Dtype to, std::byte* out);

// Decodes integers and booleans (0 is 0, any other byte is 1). Returns the index of the first
// number that does not fit, if any; `out` is then partly written. REQUIRES: !IsFloating(from).
std::optional<size_t> DecodeIntegers(const std::byte* data, Dtype from, std::span<int64_t> out);
std::optional<size_t> DecodeIntegers(const std::byte* data, Dtype from, std::span<int32_t> out);

}  // namespace folio
