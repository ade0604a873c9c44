#pragma once

#include <string>

#include "folio/data/dataset.h"

namespace folio {

// Describes what a data directory holds: a line for each fact, or one JSON object (`json`).
std::string DescribeDataset(const std::string& dir, const DatasetInfo& info, bool json);

}  // namespace folio
