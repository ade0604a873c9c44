#include "folio/bench/dtypes.h"

#include <fmt/format.h>

#include "folio/base/error.h"
#include "folio/tensor/dtype.h"

namespace folio {

std::vector<Dtype> DtypesNamed(const std::string& name, const Backend& backend) {
  std::vector<Dtype> dtypes;
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBF16}) {
    const bool named = name == "both" || name == DtypeSetting(dtype);
    if (named && backend.Supports(dtype)) dtypes.push_back(dtype);
  }
  if (dtypes.empty()) {
    throw UsageError(fmt::format("backend {} does not compute in {}", backend.name(), name), {},
                     "use --dtype fp32, or --backend cpu");
  }
  return dtypes;
}

}  // namespace folio
