#include "folio/apps/compute_dtype.h"

#include <fmt/format.h>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/simd_targets.h"

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

std::string ProductUnit(Dtype dtype) {
  if (dtype == Dtype::kBF16) {
    switch (Bf16UnitInUse()) {
      case Bf16Unit::kAmx:
        return "AMX";
      case Bf16Unit::kAvx512:
        return "AVX512_BF16";
      case Bf16Unit::kPlain:
        break;
    }
  }
  std::string target = SimdTarget();
  if (target != "AMX" && target != "AVX3_BF16") return target;
  // Those two are for bfloat16 alone; everything else runs on the best of the others.
  for (const std::string& name : SimdTargets()) {
    if (name != "AMX" && name != "AVX3_BF16") return name;
  }
  return target;
}

}  // namespace folio
