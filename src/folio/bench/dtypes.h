#pragma once

#include <string>
#include <vector>

#include "folio/backend/backend.h"

namespace folio {

// The dtypes that a benchmark's --dtype means: "fp32", "bf16", or "both" for all that the backend
// supports. Throws a kUsage Error for one that it does not.
std::vector<Dtype> DtypesNamed(const std::string& name, const Backend& backend);

}  // namespace folio
