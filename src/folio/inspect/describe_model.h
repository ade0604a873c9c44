#pragma once

#include <filesystem>
#include <string>

namespace folio {

// Describes the model at `path`, in any format (formats/model_formats.h): text for people, or one
// JSON object (`json`). Its configuration as parameters.h describes it, the tokenizer, and how each
// tensor is stored; of a model that folio refuses the tensors that are there, and why. The adapter
// of a directory is added, unless that is empty. Throws a kInput Error where there is no model, or
// nothing of it can be read, or the adapter is not one for it.
std::string DescribeModel(const std::filesystem::path& path, const std::filesystem::path& adapter,
                          bool json);

}  // namespace folio
