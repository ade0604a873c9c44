#include "folio/tensor/dtype.h"

#include <iterator>

#include "folio/base/check.h"

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

}  // namespace folio
