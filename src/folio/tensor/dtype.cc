#include "folio/tensor/dtype.h"

#include <array>

#include "folio/base/check.h"

namespace folio {
namespace {

struct DtypeInfo {
  Dtype dtype;
  size_t size;
  std::string_view name;
};

constexpr std::array kInfos = {
    DtypeInfo{Dtype::kF32, 4, "F32"}, DtypeInfo{Dtype::kF64, 8, "F64"},
    DtypeInfo{Dtype::kF16, 2, "F16"}, DtypeInfo{Dtype::kBF16, 2, "BF16"},
    DtypeInfo{Dtype::kI64, 8, "I64"}, DtypeInfo{Dtype::kI32, 4, "I32"},
    DtypeInfo{Dtype::kU32, 4, "U32"}, DtypeInfo{Dtype::kI16, 2, "I16"},
    DtypeInfo{Dtype::kU16, 2, "U16"}, DtypeInfo{Dtype::kI8, 1, "I8"},
    DtypeInfo{Dtype::kU8, 1, "U8"},   DtypeInfo{Dtype::kBool, 1, "BOOL"},
};

const DtypeInfo& InfoOf(Dtype dtype) {
  const size_t index = static_cast<size_t>(dtype);
  FOLIO_CHECK(index < kInfos.size() && kInfos[index].dtype == dtype, "unknown dtype");
  return kInfos[index];
}

}  // namespace

size_t DtypeSize(Dtype dtype) {
  return InfoOf(dtype).size;
}

std::string_view DtypeName(Dtype dtype) {
  return InfoOf(dtype).name;
}

std::optional<Dtype> DtypeFromName(std::string_view name) {
  for (const DtypeInfo& info : kInfos) {
    if (info.name == name) return info.dtype;
  }
  return std::nullopt;
}

}  // namespace folio
