#include "folio/tensor/dtype.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "folio/base/check.h"
#include "folio/base/thread_pool.h"

namespace folio {
namespace {

struct DtypeInfo {
  Dtype dtype;
  size_t block;  // numbers
  size_t bytes;  // of a block
  std::string_view name, setting, torch;
};

constexpr DtypeInfo kInfos[] = {
    {Dtype::kF32, 1, 4, "F32", "fp32", "float32"}, {Dtype::kF64, 1, 8, "F64", "fp64", "float64"},
    {Dtype::kF16, 1, 2, "F16", "fp16", "float16"}, {Dtype::kBF16, 1, 2, "BF16", "bf16", "bfloat16"},
    {Dtype::kI64, 1, 8, "I64", "", "int64"},       {Dtype::kI32, 1, 4, "I32", "", "int32"},
    {Dtype::kU32, 1, 4, "U32", "", "uint32"},      {Dtype::kI16, 1, 2, "I16", "", "int16"},
    {Dtype::kU16, 1, 2, "U16", "", "uint16"},      {Dtype::kI8, 1, 1, "I8", "", "int8"},
    {Dtype::kU8, 1, 1, "U8", "", "uint8"},         {Dtype::kBool, 1, 1, "BOOL", "", "bool"},
    {Dtype::kQ8_0, 32, 34, "Q8_0", "int8", ""},    {Dtype::kQ4_0, 32, 18, "Q4_0", "int4", ""},
};

const DtypeInfo& InfoOf(Dtype dtype) {
  const size_t index = static_cast<size_t>(dtype);
  FOLIO_CHECK(index < std::size(kInfos) && kInfos[index].dtype == dtype, "unknown dtype");
  return kInfos[index];
}

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

// The nearest binary16, of two that are equally near the even one.
uint16_t ToF16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  constexpr uint32_t kInfinity = 0x7f800000, kTooLarge = 0x477ff000;  // 65520
  constexpr uint32_t kNormal = 0x38800000;                            // 2^-14
  uint32_t half = 0;
  if (magnitude > kInfinity) {
    half = 0x7e00u | (magnitude >> 13 & 0x1ffu);
  } else if (magnitude >= kTooLarge) {
    half = 0x7c00;
  } else if (magnitude >= kNormal) {
    half = (magnitude + 0xfffu + (magnitude >> 13 & 1u) - (112u << 23)) >> 13;
  } else {
    // The sum is rounded to multiples of 2^-24, as binary16 has them here.
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    half = std::bit_cast<uint32_t>(sum) - std::bit_cast<uint32_t>(0.5f);
  }
  return static_cast<uint16_t>(sign | half);
}

template <class T>
void Store(T value, std::byte* at) {
  std::memcpy(at, &value, sizeof value);
}

constexpr size_t kBlock = 32, kScale = 2;  // numbers, bytes
constexpr size_t kQ80Bytes = kScale + kBlock, kQ40Bytes = kScale + kBlock / 2;

template <class Out>
void DecodeQ80(const std::byte* data, std::span<Out> out) {
  for (size_t i = 0; i < out.size(); i += kBlock, data += kQ80Bytes) {
    const float scale = FromF16(Load<uint16_t>(data));
    for (size_t j = 0; j < kBlock; ++j) {
      out[i + j] = scale * static_cast<float>(Load<int8_t>(data + kScale + j));
    }
  }
}

template <class Out>
void DecodeQ40(const std::byte* data, std::span<Out> out) {
  for (size_t i = 0; i < out.size(); i += kBlock, data += kQ40Bytes) {
    const float scale = FromF16(Load<uint16_t>(data));
    for (size_t j = 0; j < kBlock / 2; ++j) {
      const int pair = std::to_integer<int>(data[kScale + j]);
      out[i + j] = scale * static_cast<float>((pair & 15) - 8);
      out[i + j + kBlock / 2] = scale * static_cast<float>((pair >> 4) - 8);
    }
  }
}

// Numbers are multiplied with InverseOf(scale) before they are rounded: 0 where they all vanish.
float InverseOf(float scale) {
  const float inverse = 1.0f / scale;
  return std::isfinite(inverse) ? inverse : 0.0f;
}

using Block = std::span<const float, kBlock>;

// Writes the scale; false if the block cannot be quantised, with NaN for it.
bool StoreScale(Block block, float scale, std::byte* out) {
  const bool fits = std::ranges::all_of(block, [](float x) { return std::isfinite(x); }) &&
                    std::isfinite(FromF16(ToF16(scale)));
  Store(fits ? ToF16(scale) : ToF16(std::numeric_limits<float>::quiet_NaN()), out);
  return fits;
}

bool EncodeQ80(Block block, std::byte* out) {
  float largest = 0;
  for (const float x : block) largest = std::max(largest, std::abs(x));
  const float scale = largest / 127;
  const float inverse = InverseOf(scale);
  if (!StoreScale(block, scale, out)) {
    std::fill_n(out + kScale, kBlock, std::byte{0});
    return false;
  }
  for (size_t j = 0; j < kBlock; ++j) {
    Store(static_cast<int8_t>(std::round(block[j] * inverse)), out + kScale + j);
  }
  return true;
}

bool EncodeQ40(Block block, std::byte* out) {
  float largest = 0;
  for (const float x : block) {
    if (std::abs(x) > std::abs(largest)) largest = x;
  }
  const float scale = largest / -8;
  const float inverse = InverseOf(scale);
  if (!StoreScale(block, scale, out)) {
    std::fill_n(out + kScale, kBlock / 2, std::byte{0});
    return false;
  }
  const auto quantised = [&](float x) {
    return std::min(15u, static_cast<unsigned>(x * inverse + 8.5f));
  };
  for (size_t j = 0; j < kBlock / 2; ++j) {
    out[kScale + j] =
        static_cast<std::byte>(quantised(block[j]) | quantised(block[j + kBlock / 2]) << 4);
  }
  return true;
}

std::optional<size_t> EncodeBlocks(std::span<const float> from, bool (*encode)(Block, std::byte*),
                                   size_t block_bytes, std::byte* out) {
  FOLIO_CHECK(from.size() % kBlock == 0, "part of a block");
  std::optional<size_t> bad;
  for (size_t i = 0; i < from.size(); i += kBlock, out += block_bytes) {
    if (!encode(from.subspan(i).first<kBlock>(), out) && !bad) bad = i;
  }
  return bad;
}

// Numbers of two bytes, whose bits `encode` makes and of which these mean infinity.
template <class Encode>
std::optional<size_t> EncodeHalves(std::span<const float> from, uint16_t infinity, std::byte* out,
                                   Encode encode) {
  std::optional<size_t> bad;
  for (size_t i = 0; i < from.size(); ++i) {
    const uint16_t bits = encode(from[i]);
    if ((bits & 0x7fff) == infinity && !std::isinf(from[i]) && !bad) bad = i;
    Store(bits, out + 2 * i);
  }
  return bad;
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
    case Dtype::kQ8_0:
      FOLIO_CHECK(out.size() % kBlock == 0, "part of a block");
      return DecodeQ80(data, out);
    case Dtype::kQ4_0:
      FOLIO_CHECK(out.size() % kBlock == 0, "part of a block");
      return DecodeQ40(data, out);
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

size_t DtypeBlock(Dtype dtype) {
  return InfoOf(dtype).block;
}

size_t DtypeBytes(Dtype dtype, int64_t count) {
  const DtypeInfo& info = InfoOf(dtype);
  const auto numbers = static_cast<size_t>(count);
  FOLIO_CHECK(numbers % info.block == 0, "part of a block");
  return numbers / info.block * info.bytes;
}

size_t DtypeSize(Dtype dtype) {
  FOLIO_CHECK(DtypeBlock(dtype) == 1, "a number of a block has no size of its own");
  return InfoOf(dtype).bytes;
}

size_t DtypeAlignment(Dtype dtype) {
  constexpr size_t kOfScale = 2;
  return DtypeBlock(dtype) == 1 ? DtypeSize(dtype) : kOfScale;
}

std::string_view DtypeName(Dtype dtype) {
  return InfoOf(dtype).name;
}

std::string_view DtypeSetting(Dtype dtype) {
  return InfoOf(dtype).setting;
}

std::string_view DtypeInTorch(Dtype dtype) {
  return InfoOf(dtype).torch;
}

std::optional<Dtype> DtypeFromName(std::string_view name) {
  for (const DtypeInfo& info : kInfos) {
    if (info.name == name) return info.dtype;
  }
  return std::nullopt;
}

bool IsFloating(Dtype dtype) {
  constexpr std::array kFloating = {Dtype::kF64,  Dtype::kF32,  Dtype::kF16,
                                    Dtype::kBF16, Dtype::kQ8_0, Dtype::kQ4_0};
  return std::ranges::find(kFloating, dtype) != kFloating.end();
}

void DecodeFloats(const std::byte* data, Dtype from, std::span<float> out) {
  DecodeFloatsTo(data, from, out);
}

void DecodeFloats(const std::byte* data, Dtype from, std::span<double> out) {
  DecodeFloatsTo(data, from, out);
}

std::optional<size_t> EncodeFloats(std::span<const float> from, Dtype to, std::byte* out) {
  switch (to) {
    case Dtype::kF32:
      if (!from.empty()) std::memcpy(out, from.data(), from.size_bytes());
      return std::nullopt;
    case Dtype::kF16:
      return EncodeHalves(from, 0x7c00, out, ToF16);
    case Dtype::kBF16:
      return EncodeHalves(from, 0x7f80, out, [](float x) { return ToBF16(x).bits; });
    case Dtype::kQ8_0:
      return EncodeBlocks(from, EncodeQ80, kQ80Bytes, out);
    case Dtype::kQ4_0:
      return EncodeBlocks(from, EncodeQ40, kQ40Bytes, out);
    default:
      FOLIO_CHECK(false, "not a dtype to encode to");
  }
  return std::nullopt;
}

void RoundTo(Dtype dtype, std::span<float> numbers) {
  std::vector<std::byte> bytes(DtypeBytes(dtype, std::ssize(numbers)));
  EncodeFloats(numbers, dtype, bytes.data());
  DecodeFloats(bytes.data(), dtype, numbers);
}

int64_t EncodeRows(Dtype dtype, int64_t rows, int64_t columns, std::byte* out,
                   const std::function<void(int64_t row, std::span<float> to)>& read) {
  constexpr int64_t kGrain = 1 << 14;
  const size_t row_bytes = DtypeBytes(dtype, columns);
  std::atomic<int64_t> bad = rows;
  ParallelRange(rows, std::max<int64_t>(1, kGrain / columns), [&](int64_t begin, int64_t end, int) {
    std::vector<float> numbers(static_cast<size_t>((end - begin) * columns));
    read(begin, numbers);
    const auto at = EncodeFloats(numbers, dtype, out + static_cast<size_t>(begin) * row_bytes);
    if (!at) return;
    const int64_t row = begin + static_cast<int64_t>(*at) / columns;
    int64_t lowest = bad;
    while (row < lowest && !bad.compare_exchange_weak(lowest, row)) {
    }
  });
  return bad < rows ? bad.load() : -1;
}

std::optional<size_t> DecodeIntegers(const std::byte* data, Dtype from, std::span<int64_t> out) {
  return DecodeIntegersTo(data, from, out);
}

std::optional<size_t> DecodeIntegers(const std::byte* data, Dtype from, std::span<int32_t> out) {
  return DecodeIntegersTo(data, from, out);
}

}  // namespace folio
