#pragma once

#include <filesystem>

#include "folio/model/params.h"
#include "folio/report/report.h"

namespace folio {

// Describes the model at `path`, in any format (formats/model_formats.h): its configuration, the
// tokenizer, and how each tensor is stored; for a model that folio refuses, the tensors and the
// reason. Adds the adapter in `adapter` unless that is empty. Throws a kInput Error if there is no
// model, or nothing of it can be read, or the adapter does not fit it.
Report DescribeModel(const std::filesystem::path& path, const std::filesystem::path& adapter);

// Describes a model by its parameters: as a whole, one by one, and totals. Allocates none of them.
Report DescribeParameters(const ParamTable& table);

}  // namespace folio
