#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace folio {

struct BlockLayout;

// A bfloat16 number: the upper half of a float32, so 8 bits of precision and float32's range.
struct BF16 {
  uint16_t bits = 0;

  bool operator==(const BF16&) const = default;
};

inline float ToFloat(BF16 x) {
  const uint32_t bits = uint32_t{x.bits} << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// The nearest bfloat16, ties to even; a NaN stays a NaN.
inline BF16 ToBF16(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  if (value != value) return {static_cast<uint16_t>(bits >> 16 | 0x40)};
  return {static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)};
}

enum class Dtype : uint8_t {
  kF32,
  kF64,
  kF16,
  kBF16,
  kI64,
  kI32,
  kU32,
  kI16,
  kU16,
  kI8,
  kU8,
  kBool,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL
};

// Most dtypes store numbers one by one. Those of ggml, from Q8_0 on, store each 32 or 256
// consecutive numbers of a row in a block: integers, with as many bits as the name says, and
// binary16 scales. Names that end with _1, and Q2_K, Q4_K and Q5_K, also have minima, which are
// added; names with a K have scales of few bits for parts of a block. In Q8_0 a scale d is followed
// by 32 signed bytes q that stand for d * q; in Q4_0 by 16 bytes, whose lower halves are the first
// 16 numbers, each as q + 8, and whose upper halves are the other 16. tensor/blocks.h describes the
// others.
size_t DtypeBlock(Dtype dtype);  // numbers in one block; 1 for types without blocks
inline bool IsBlocked(Dtype dtype) {
  return DtypeBlock(dtype) > 1;
}
// Bytes of `count` numbers. REQUIRES: whole blocks, no overflow.
size_t DtypeBytes(Dtype dtype, int64_t count);
size_t DtypeSize(Dtype dtype);            // bytes of one number. REQUIRES: no blocks
size_t DtypeAlignment(Dtype dtype);       // the alignment that reading numbers in place needs
std::string_view DtypeName(Dtype dtype);  // as safetensors or ggml spells it: "F32"
std::optional<Dtype> DtypeFromName(std::string_view name);
// The name of a dtype in settings and flags, for computing and for stored weights: "fp32", "bf16",
// "int8" (Q8_0), "int4" (Q4_0).
std::string_view DtypeSetting(Dtype dtype);
std::string_view DtypeInTorch(Dtype dtype);  // "float32", "bfloat16"; "" for blocks
// Its number in ggml and in GGUF files; nothing for a dtype that ggml lacks.
std::optional<uint32_t> DtypeInGgml(Dtype dtype);
std::optional<Dtype> DtypeFromGgml(uint32_t number);
// The layout of its blocks. REQUIRES: IsBlocked(dtype)
const BlockLayout& LayoutOf(Dtype dtype);

// The Dtype of a C++ number type.
template <class T>
constexpr Dtype DtypeOf() {
  constexpr std::array kIs = {
      // in the order of Dtype; no type is F16
      std::is_same_v<T, float>,    std::is_same_v<T, double>,  false,
      std::is_same_v<T, BF16>,     std::is_same_v<T, int64_t>, std::is_same_v<T, int32_t>,
      std::is_same_v<T, uint32_t>, std::is_same_v<T, int16_t>, std::is_same_v<T, uint16_t>,
      std::is_same_v<T, int8_t>,   std::is_same_v<T, uint8_t>, std::is_same_v<T, bool>};
  constexpr auto kIndex = std::ranges::find(kIs, true) - kIs.begin();
  static_assert(kIndex < std::ssize(kIs), "no Dtype for this type");
  return static_cast<Dtype>(kIndex);
}

bool IsFloating(Dtype dtype);  // F64, F32, F16, BF16, and blocks

// Decodes out.size() little-endian numbers of a floating dtype from memory of any alignment.
// Widening is exact (NaN payloads too); F64 to float rounds to nearest even, and to infinity if too
// large. REQUIRES: IsFloating(from), whole blocks.
void DecodeFloats(const std::byte* data, Dtype from, std::span<float> out);
void DecodeFloats(const std::byte* data, Dtype from, std::span<double> out);

// Encodes the numbers as `to`, which is F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K or
// Q6_K, into DtypeBytes(to, from.size()) bytes of any alignment. F16 and BF16 round to nearest even
// and keep NaN and infinities. Blocks are quantised as by ggml's reference: in Q8_0 and Q4_0 the
// number of largest magnitude becomes 127, or -8, and a block of zeros becomes zeros. Returns the
// index of the first finite number that became infinite, or of the first number of the first block
// that holds numbers that are not finite or needs a scale beyond binary16, if any; what is written
// for it then decodes to infinity or NaN. REQUIRES: whole blocks.
std::optional<size_t> EncodeFloats(std::span<const float> from, Dtype to, std::byte* out);

// Rounds numbers to values of `dtype`, one that EncodeFloats takes. REQUIRES: whole blocks.
void RoundTo(Dtype dtype, std::span<float> numbers);

// Encodes `rows` rows of `columns` numbers as EncodeFloats does, on Threads() threads: read(row,
// to) fills `to` with rows from `row` on. Returns the first row with a number for which
// EncodeFloats returns its index, or -1.
int64_t EncodeRows(Dtype dtype, int64_t rows, int64_t columns, std::byte* out,
                   const std::function<void(int64_t row, std::span<float> to)>& read);

// Decodes integers and booleans (0 is 0, any other byte is 1). Returns the index of the first
// number that does not fit, if any; `out` is then partly written. REQUIRES: !IsFloating(from).
std::optional<size_t> DecodeIntegers(const std::byte* data, Dtype from, std::span<int64_t> out);
std::optional<size_t> DecodeIntegers(const std::byte* data, Dtype from, std::span<int32_t> out);

}  // namespace folio
