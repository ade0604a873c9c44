#pragma once

#include <filesystem>

#include "folio/formats/model_formats.h"

namespace folio {

// Hugging Face's model directory, which is folio's own too, or the weights in it alone:
// model/checkpoint.h with the tokenizer.
bool IsHfDirectory(const std::filesystem::path& path);
FoundModel OpenHfDirectory(const std::filesystem::path& path, Loading loading);
void SaveHfDirectory(const std::filesystem::path& path, const ModelToSave& model);
std::vector<ListedTensor> ListHfTensors(const std::filesystem::path& path);

}  // namespace folio
