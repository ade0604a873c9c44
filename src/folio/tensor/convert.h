#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "folio/tensor/dtype.h"

namespace folio {

bool IsFloating(Dtype dtype);  // F64, F32, F16, BF16, Q8_0, Q4_0

// Decodes out.size() little-endian numbers of a floating dtype from memory of any alignment.
// Widening is exact (NaN payloads too); F64 to float rounds to nearest even, too large becomes
// infinite. REQUIRES: IsFloating(from), whole blocks.
void DecodeFloats(const std::byte* data, Dtype from, std::span<float> out);
void DecodeFloats(const std::byte* data, Dtype from, std::span<double> out);

// Writes the numbers as `to`, which is F32, F16, BF16, Q8_0 or Q4_0, to DtypeBytes(to, from.size())
// bytes of any alignment. F16 and BF16 round to nearest even and keep NaN and infinities. Blocks
// are quantised as ggml's reference does it: the number of largest magnitude becomes 127, or -8,
// and a block that is all but 0 becomes 0. Returns the index of the first finite number that became
// infinite, or of the first block's first number that holds something else than finite numbers or
// needs a scale beyond binary16, if any; what is written for it then decodes to infinity or NaN.
// REQUIRES: whole blocks.
std::optional<size_t> EncodeFloats(std::span<const float> from, Dtype to, std::byte* out);

// Rounds numbers to what `dtype`, one that EncodeFloats takes, can hold. REQUIRES: whole blocks.
void RoundTo(Dtype dtype, std::span<float> numbers);

// Encodes `rows` rows of `columns` numbers, on Threads() threads, as EncodeFloats does:
// read(row, to) gives as many rows from `row` on as `to` holds. Returns the first row with a number
// for which EncodeFloats returns its index, or -1.
int64_t EncodeRows(Dtype dtype, int64_t rows, int64_t columns, std::byte* out,
                   const std::function<void(int64_t row, std::span<float> to)>& read);

// Decodes integers and booleans (0 is 0, any other byte is 1). Returns the index of the first
// number that does not fit, if any; `out` is then partly written. REQUIRES: !IsFloating(from).
std::optional<size_t> DecodeIntegers(const std::byte* data, Dtype from, std::span<int64_t> out);
std::optional<size_t> DecodeIntegers(const std::byte* data, Dtype from, std::span<int32_t> out);

}  // namespace folio
