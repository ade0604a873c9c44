#pragma once

#include <string>

#include "folio/io/json.h"
#include "folio/model/params.h"

namespace folio {

// A model as a whole, then its parameters, one by one and together: text for people, or one JSON
// object (`json`). Nothing is allocated.
std::string DescribeParameters(const ParamTable& table, bool json);

// The lines of that text that are of the model as a whole, and an empty one; and the JSON object.
std::string SummaryText(const ModelSummary& summary);
Json ParametersJson(const ParamTable& table);

}  // namespace folio
