#include "folio/tensor/dtype.h"

#include <atomic>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "folio/base/check.h"
#include "folio/base/thread_pool.h"
#include "folio/tensor/blocks.h"
#include "folio/tensor/half.h"

namespace folio {
namespace {

struct DtypeInfo {
  Dtype dtype;
  size_t block;  // numbers
  size_t bytes;  // of a block
  std::string_view name, setting, torch;
  int ggml;  // its number in ggml, -1 for none
  const BlockLayout* layout = nullptr;
};

constexpr DtypeInfo kInfos[] = {
    {Dtype::kF32, 1, 4, "F32", "fp32", "float32", 0},
    {Dtype::kF64, 1, 8, "F64", "fp64", "float64", 28},
    {Dtype::kF16, 1, 2, "F16", "fp16", "float16", 1},
    {Dtype::kBF16, 1, 2, "BF16", "bf16", "bfloat16", 30},
    {Dtype::kI64, 1, 8, "I64", "", "int64", 27},
    {Dtype::kI32, 1, 4, "I32", "", "int32", 26},
    {Dtype::kU32, 1, 4, "U32", "", "uint32", -1},
    {Dtype::kI16, 1, 2, "I16", "", "int16", 25},
    {Dtype::kU16, 1, 2, "U16", "", "uint16", -1},
    {Dtype::kI8, 1, 1, "I8", "", "int8", 24},
    {Dtype::kU8, 1, 1, "U8", "", "uint8", -1},
    {Dtype::kBool, 1, 1, "BOOL", "", "bool", -1},
    {Dtype::kQ8_0, 32, 34, "Q8_0", "int8", "", 8, &kQ80},
    {Dtype::kQ4_0, 32, 18, "Q4_0", "int4", "", 2, &kQ40},
    {Dtype::kQ4_1, 32, 20, "Q4_1", "", "", 3, &kQ41},
    {Dtype::kQ5_0, 32, 22, "Q5_0", "", "", 6, &kQ50},
    {Dtype::kQ5_1, 32, 24, "Q5_1", "", "", 7, &kQ51},
    {Dtype::kQ2_K, 256, 84, "Q2_K", "", "", 10, &kQ2K},
    {Dtype::kQ3_K, 256, 110, "Q3_K", "", "", 11, &kQ3K},
    {Dtype::kQ4_K, 256, 144, "Q4_K", "", "", 12, &kQ4K},
    {Dtype::kQ5_K, 256, 176, "Q5_K", "", "", 13, &kQ5K},
    {Dtype::kQ6_K, 256, 210, "Q6_K", "", "", 14, &kQ6K},
    {Dtype::kIQ4_NL, 32, 18, "IQ4_NL", "", "", 20, &kIq4Nl},
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

template <class T>
void Store(T value, std::byte* at) {
  std::memcpy(at, &value, sizeof value);
}

template <class Out>
void DecodeBlocks(const std::byte* data, const DtypeInfo& info, std::span<Out> out) {
  FOLIO_CHECK(out.size() % info.block == 0, "part of a block");
  constexpr size_t kNumbers = BlockPart::kNumbers;
  BlockPart part;
  for (size_t i = 0; i < out.size(); i += kNumbers) {
    info.layout->unpack(data + i / info.block * info.bytes, i % info.block / kNumbers, part);
    float numbers[kNumbers];
    for (size_t j = 0; j < kNumbers; ++j) {
      numbers[j] = part.scale[j / (kNumbers / 2)] * static_cast<float>(part.q[j]);
    }
    for (size_t j = 0; info.layout->minima && j < kNumbers; ++j)
      numbers[j] += part.least[j / (kNumbers / 2)];
    std::copy_n(numbers, kNumbers, out.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

std::optional<size_t> EncodeBlocks(std::span<const float> from, const DtypeInfo& info,
                                   std::byte* out) {
  FOLIO_CHECK(from.size() % info.block == 0, "part of a block");
  FOLIO_CHECK(info.layout != nullptr && info.layout->encode != nullptr, "not a dtype to encode to");
  std::optional<size_t> bad;
  for (size_t i = 0; i < from.size(); i += info.block, out += info.bytes) {
    if (!info.layout->encode(from.data() + i, out) && !bad) bad = i;
  }
  return bad;
}

// Numbers of two bytes: `encode` makes their bits, and `infinity` lists those of infinity.
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
      for (size_t i = 0; i < out.size(); ++i) out[i] = HalfToFloat(Load<uint16_t>(data + 2 * i));
      return;
    case Dtype::kBF16:
      for (size_t i = 0; i < out.size(); ++i) out[i] = ToFloat(Load<BF16>(data + 2 * i));
      return;
    default:
      FOLIO_CHECK(IsBlocked(from), "not a floating dtype");
      return DecodeBlocks(data, InfoOf(from), out);
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

std::optional<uint32_t> DtypeInGgml(Dtype dtype) {
  const int number = InfoOf(dtype).ggml;
  return number < 0 ? std::nullopt : std::optional(static_cast<uint32_t>(number));
}

std::optional<Dtype> DtypeFromGgml(uint32_t number) {
  for (const DtypeInfo& info : kInfos) {
    if (DtypeInGgml(info.dtype) == number) return info.dtype;
  }
  return std::nullopt;
}

const BlockLayout& LayoutOf(Dtype dtype) {
  const DtypeInfo& info = InfoOf(dtype);
  FOLIO_CHECK(info.layout != nullptr, "a dtype without blocks");
  return *info.layout;
}

bool IsFloating(Dtype dtype) {
  constexpr std::array kFloating = {Dtype::kF64, Dtype::kF32, Dtype::kF16, Dtype::kBF16};
  return IsBlocked(dtype) || std::ranges::find(kFloating, dtype) != kFloating.end();
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
      return EncodeHalves(from, 0x7c00, out, FloatToHalf);
    case Dtype::kBF16:
      return EncodeHalves(from, 0x7f80, out, [](float x) { return ToBF16(x).bits; });
    default:
      return EncodeBlocks(from, InfoOf(to), out);
  }
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
