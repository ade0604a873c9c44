#include "folio/formats/hf_directory.h"

#include <fmt/format.h>

#include "folio/base/error.h"
#include "folio/io/file.h"
#include "folio/io/model_dir.h"
#include "folio/io/safetensors.h"
#include "folio/model/checkpoint.h"
#include "folio/text/encodings.h"

namespace folio {

// Whatever else lies there: what is missing is said when it is opened.
bool IsHfDirectory(const std::filesystem::path& path) {
  return std::filesystem::is_directory(path);
}

FoundModel OpenHfDirectory(const std::filesystem::path& path, Loading loading) {
  FoundModel found{.model = OpenModelDir(path, loading)};
  if (!TokenizerFiles(path.string()).empty()) found.tokenizer = LoadTokenizer(path.string());
  return found;
}

void SaveHfDirectory(const std::filesystem::path& path, const ModelToSave& model) {
  if (model.dtype != Dtype::kF32) {
    throw UsageError("a Hugging Face directory is written as F32",
                     fmt::format("asked for {}", DtypeName(model.dtype)));
  }
  AtomicDirectory directory(path);
  SaveModel(directory.path(), model.weights);
  if (model.tokenizer != nullptr) model.tokenizer->Save(directory.path().string());
  directory.Commit();
}

std::vector<ListedTensor> ListHfTensors(const std::filesystem::path& path) {
  return ListTensors(SafetensorsFile(path / kWeightsFile));
}

}  // namespace folio
