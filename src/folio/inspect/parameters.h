#pragma once

#include <string>

#include "folio/model/config.h"

namespace folio {

// A model of this configuration as a whole, then its parameters, one by one and together: text for
// people, or one JSON object (`json`). Nothing is allocated.
std::string DescribeParameters(const GptConfig& config, bool json);

}  // namespace folio
