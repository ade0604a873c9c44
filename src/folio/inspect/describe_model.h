#pragma once

#include <filesystem>

#include "folio/model/params.h"
#include "folio/report/report.h"

namespace folio {

// Describes the model at `path`, in any format (formats/model_formats.h): its configuration, the
// tokenizer, and how each tensor is stored; of a model that folio refuses the tensors that are
// there, and why. The adapter of a directory is added, unless that is empty. Throws a kInput Error
// where there is no model, or nothing of it can be read, or the adapter is not one for it.
Report DescribeModel(const std::filesystem::path& path, const std::filesystem::path& adapter);

// Describes a model by its parameters: as a whole, then one by one and together. Nothing is
// allocated.
Report DescribeParameters(const ParamTable& table);

}  // namespace folio
