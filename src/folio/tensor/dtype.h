#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "folio/tensor/bf16.h"

namespace folio {

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
  kBool
};

size_t DtypeSize(Dtype dtype);            // bytes of one element
std::string_view DtypeName(Dtype dtype);  // as safetensors spells it: "F32"
std::optional<Dtype> DtypeFromName(std::string_view name);

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
