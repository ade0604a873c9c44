#pragma once

#include <string>

#include "folio/io/json.h"
#include "folio/model/config.h"

namespace folio {

// A model of this configuration as a whole, then its parameters, one by one and together: text for
// people, or one JSON object (`json`). Nothing is allocated.
std::string DescribeParameters(const GptConfig& config, bool json);

// SummaryText is the part of that about the model as a whole, a line for each thing and an empty
// one; ParametersJson is the JSON object.
std::string SummaryText(const GptConfig& config);
Json ParametersJson(const GptConfig& config);

}  // namespace folio
