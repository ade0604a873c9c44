#pragma once

#include <string>

#include "folio/model/config.h"

namespace folio {

// The parameters of a model of this configuration, one by one and together: a table for people, or
// one JSON object (`json`). Nothing is allocated.
std::string DescribeParameters(const GptConfig& config, bool json);

}  // namespace folio
