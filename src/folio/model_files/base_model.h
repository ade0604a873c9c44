#pragma once

#include <filesystem>
#include <string>

namespace folio {

struct StoredModel;

// The model that an adapter (lora.h) is for, as kBaseModelFile (io/model_dir.h) beside it names it.
struct BaseModel {
  std::string path = {};    // absolute
  std::string sha256 = {};  // WeightsSha256 of it
};

// The SHA-256 of a model's tensors as its file has them: of their names, dtypes, shapes and bytes,
// by name. Throws a kInput Error for a model that is not in a file as it is: one with an adapter
// added.
std::string WeightsSha256(const StoredModel& model);

// Writes the file into the existing directory of an adapter.
void SaveBaseModel(const std::filesystem::path& dir, const BaseModel& base);
// Throws a kInput Error where the file is missing, or broken.
BaseModel LoadBaseModel(const std::filesystem::path& dir);

}  // namespace folio
