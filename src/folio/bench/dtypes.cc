#include "folio/bench/dtypes.h"

#include <fmt/format.h>

#include "folio/base/check.h"
#include "folio/base/error.h"

namespace folio {

std::vector<Dtype> DtypesNamed(const std::string& name, const Backend& backend) {
  FOLIO_CHECK(name == "fp32" || name == "bf16" || name == "both", "another dtype");
  std::vector<Dtype> dtypes;
  if (name != "bf16") dtypes.push_back(Dtype::kF32);
  if (name != "fp32" && backend.Supports(Dtype::kBF16)) dtypes.push_back(Dtype::kBF16);
  if (dtypes.empty()) {
    throw UsageError(fmt::format("backend {} does not compute in {}", backend.name(), name), {},
                     "use --dtype fp32, or --backend cpu");
  }
  return dtypes;
}

}  // namespace folio
