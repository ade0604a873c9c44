#include "folio/io/convert.h"

#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "folio/base/check.h"

namespace folio {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian, and so is all");

template <class T>
T Load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

float FromBF16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// IEEE 754 binary16: 1 sign, 5 exponent (bias 15), 10 fraction bits.
float FromF16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 31u;
  const uint32_t fraction = bits & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  const uint32_t a = bits & 0x7fffffffu;
  const auto with_sign = [&](uint32_t magnitude) {
    return static_cast<uint16_t>(sign | magnitude);
  };
  if (a > 0x7f800000u) return with_sign(0x7e00u | (a >> 13 & 0x3ffu));  // NaN
  if (a >= std::bit_cast<uint32_t>(65520.0f)) return with_sign(0x7c00u);
  if (a < std::bit_cast<uint32_t>(0x1p-14f)) {
    // Subnormal: numbers from 0.5 on are as far apart as these, so that the sum is rounded for us.
    const float sum = std::bit_cast<float>(a) + 0.5f;
    return with_sign(std::bit_cast<uint32_t>(sum) - std::bit_cast<uint32_t>(0.5f));
  }
  return with_sign((a + 0xfffu + (a >> 13 & 1u) - (uint32_t{112} << 23)) >> 13);
}

void Store(uint16_t bits, std::byte* at) {
  std::memcpy(at, &bits, sizeof bits);
}

template <class Out>
void DecodeFloatsTo(const std::byte* data, Dtype from, std::span<Out> out) {
  if (from == DtypeOf<Out>()) {
    if (!out.empty()) std::memcpy(out.data(), data, out.size_bytes());
    return;
  }
  switch (from) {
    case Dtype::kF64:
      for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<Out>(Load<double>(data + 8 * i));
      return;
    case Dtype::kF32:
      for (size_t i = 0; i < out.size(); ++i) out[i] = Load<float>(data + 4 * i);
      return;
    case Dtype::kF16:
      for (size_t i = 0; i < out.size(); ++i) out[i] = FromF16(Load<uint16_t>(data + 2 * i));
      return;
    case Dtype::kBF16:
      for (size_t i = 0; i < out.size(); ++i) out[i] = FromBF16(Load<uint16_t>(data + 2 * i));
      return;
    default:
      FOLIO_CHECK(false, "not a floating dtype");
  }
}

template <class In, class Out>
std::optional<size_t> DecodeIntegersFrom(const std::byte* data, std::span<Out> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    const In value = Load<In>(data + sizeof(In) * i);
    if (!std::in_range<Out>(value)) return i;
    out[i] = static_cast<Out>(value);
  }
  return std::nullopt;
}

template <class Out>
std::optional<size_t> DecodeIntegersTo(const std::byte* data, Dtype from, std::span<Out> out) {
  switch (from) {
    case Dtype::kI64:
      return DecodeIntegersFrom<int64_t>(data, out);
    case Dtype::kI32:
      return DecodeIntegersFrom<int32_t>(data, out);
    case Dtype::kU32:
      return DecodeIntegersFrom<uint32_t>(data, out);
    case Dtype::kI16:
      return DecodeIntegersFrom<int16_t>(data, out);
    case Dtype::kU16:
      return DecodeIntegersFrom<uint16_t>(data, out);
    case Dtype::kI8:
      return DecodeIntegersFrom<int8_t>(data, out);
    case Dtype::kU8:
      return DecodeIntegersFrom<uint8_t>(data, out);
    case Dtype::kBool:
      for (size_t i = 0; i < out.size(); ++i) out[i] = data[i] != std::byte{0} ? 1 : 0;
      return std::nullopt;
    default:
      FOLIO_CHECK(false, "not an integer dtype");
  }
  return std::nullopt;
}

}  // namespace

bool IsFloating(Dtype dtype) {
  return dtype == Dtype::kF64 || dtype == Dtype::kF32 || dtype == Dtype::kF16 ||
         dtype == Dtype::kBF16;
}

void DecodeFloats(const std::byte* data, Dtype from, std::span<float> out) {
  DecodeFloatsTo(data, from, out);
}

void DecodeFloats(const std::byte* data, Dtype from, std::span<double> out) {
  DecodeFloatsTo(data, from, out);
}

void EncodeFloats(std::span<const float> numbers, Dtype to, std::byte* out) {
  switch (to) {
    case Dtype::kF32:
      if (!numbers.empty()) std::memcpy(out, numbers.data(), numbers.size_bytes());
      return;
    case Dtype::kF16:
      for (size_t i = 0; i < numbers.size(); ++i) Store(ToF16(numbers[i]), out + 2 * i);
      return;
    case Dtype::kBF16:
      for (size_t i = 0; i < numbers.size(); ++i) Store(ToBF16(numbers[i]).bits, out + 2 * i);
      return;
    default:
      FOLIO_CHECK(false, "floats are not written in this dtype");
  }
}

std::optional<size_t> DecodeIntegers(const std::byte* data, Dtype from, std::span<int64_t> out) {
  return DecodeIntegersTo(data, from, out);
}

std::optional<size_t> DecodeIntegers(const std::byte* data, Dtype from, std::span<int32_t> out) {
  return DecodeIntegersTo(data, from, out);
}

}  // namespace folio
