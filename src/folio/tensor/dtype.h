#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <type_traits>

namespace folio {

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

// The nearest bfloat16, of two that are equally near the even one; a NaN stays a NaN.
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
  kQ4_0
};

// Most dtypes store numbers one by one. Q8_0 and Q4_0, ggml's, store each 32 consecutive numbers of
// a row in a block: a binary16 scale d, then integers q that stand for d * q. In Q8_0 these are 32
// signed bytes; in Q4_0 16 bytes, whose lower halves are the first 16 numbers, each as q + 8, and
// whose upper halves are the other 16.
size_t DtypeBlock(Dtype dtype);  // numbers in one block: 1 where each stands by itself
inline bool IsBlocked(Dtype dtype) {
  return DtypeBlock(dtype) > 1;
}
// Bytes of `count` numbers. REQUIRES: whole blocks, no overflow.
size_t DtypeBytes(Dtype dtype, int64_t count);
size_t DtypeSize(Dtype dtype);            // bytes of one number. REQUIRES: no blocks
size_t DtypeAlignment(Dtype dtype);       // that reading numbers where they lie asks for
std::string_view DtypeName(Dtype dtype);  // as safetensors or ggml spells it: "F32"
std::optional<Dtype> DtypeFromName(std::string_view name);
// What settings and flags call a dtype that models compute with or whose weights are kept as it:
// "fp32", "bf16", "int8" (Q8_0), "int4" (Q4_0).
std::string_view DtypeSetting(Dtype dtype);
std::string_view DtypeInTorch(Dtype dtype);  // "float32", "bfloat16"; "" for blocks

// The Dtype of a C++ number type.
template <class T>
inline constexpr bool kNoDtype = false;
template <class T>
constexpr Dtype DtypeOf() {
  if constexpr (std::is_same_v<T, float>)
    return Dtype::kF32;
  else if constexpr (std::is_same_v<T, double>)
    return Dtype::kF64;
  else if constexpr (std::is_same_v<T, BF16>)
    return Dtype::kBF16;
  else if constexpr (std::is_same_v<T, int64_t>)
    return Dtype::kI64;
  else if constexpr (std::is_same_v<T, int32_t>)
    return Dtype::kI32;
  else if constexpr (std::is_same_v<T, uint32_t>)
    return Dtype::kU32;
  else if constexpr (std::is_same_v<T, int16_t>)
    return Dtype::kI16;
  else if constexpr (std::is_same_v<T, uint16_t>)
    return Dtype::kU16;
  else if constexpr (std::is_same_v<T, int8_t>)
    return Dtype::kI8;
  else if constexpr (std::is_same_v<T, uint8_t>)
    return Dtype::kU8;
  else if constexpr (std::is_same_v<T, bool>)
    return Dtype::kBool;
  else
    static_assert(kNoDtype<T>, "no Dtype for this type");
}

}  // namespace folio
