#include "folio/model_files/base_model.h"

#include <fmt/format.h>

#include <map>
#include <string_view>

#include "folio/base/error.h"
#include "folio/io/checksums.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/io/model_dir.h"
#include "folio/io/posix.h"
#include "folio/model_files/checkpoint.h"
#include "folio/tensor/dtype.h"

namespace folio {

namespace fs = std::filesystem;

std::string WeightsSha256(const StoredModel& model) {
  if (model.file == nullptr || model.file->tensors().empty()) {
    throw InputError("the model has an adapter merged into its weights",
                     "saving only adapters needs a base model that is a file or directory",
                     "convert it first: folio convert MODEL NEW --to hf");
  }
  std::map<std::string_view, const TensorInfo*> by_name;
  for (const TensorInfo& info : model.file->tensors()) by_name.emplace(info.name, &info);
  Digest hash = Digest::Sha256();
  for (const auto& [name, info] : by_name) {
    hash.Add(fmt::format("{} {} {}\n", name, DtypeName(info->dtype), info->shape.ToString()));
    hash.Add({reinterpret_cast<const char*>(info->data), static_cast<size_t>(info->bytes)});
  }
  return hash.Hex();
}

void SaveBaseModel(const fs::path& dir, const BaseModel& base) {
  const GuardedDirectory inside(dir);
  const Json json = {{"path", base.path}, {"weights_sha256", base.sha256}};
  WriteFileAtomically(dir / kBaseModelFile, json.dump(2) + "\n");
}

BaseModel LoadBaseModel(const fs::path& dir) {
  constexpr uint64_t kMostBytes = 1 << 16;
  const fs::path path = dir / kBaseModelFile;
  const std::string where = path.string();
  try {
    const Json json = ParseJson(ReadFile(path, kMostBytes), where);
    return {.path = json.at("path").text(), .sha256 = json.at("weights_sha256").text()};
  } catch (const JsonError& error) {
    throw InputError(fmt::format("{}: the base model of the adapter is missing", where),
                     error.what());
  }
}

}  // namespace folio
