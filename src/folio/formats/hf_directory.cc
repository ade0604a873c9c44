#include "folio/formats/hf_directory.h"

#include "folio/io/file.h"
#include "folio/io/model_dir.h"
#include "folio/io/safetensors.h"
#include "folio/model/checkpoint.h"
#include "folio/text/encodings.h"

namespace folio {

// Whatever else lies there: what is missing is said when it is opened.
bool IsHfDirectory(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) ||
         (std::filesystem::is_regular_file(path, ignored) && IsWeightsName(path));
}

FoundModel OpenHfDirectory(const std::filesystem::path& path, Loading loading) {
  FoundModel found{.model = OpenModelDir(path, loading)};
  const std::string dir = (DirOfModel(path) / "").string();
  if (!TokenizerFiles(dir).empty()) found.tokenizer = LoadTokenizer(dir);
  return found;
}

void SaveHfDirectory(const std::filesystem::path& path, const ModelToSave& model) {
  const MadeParents parents(path);
  AtomicDirectory dir(path);
  SaveModel(dir.path(), model.weights, {.dtype = model.dtype});
  if (model.tokenizer != nullptr) model.tokenizer->Save(dir.path().string());
  dir.Commit();
}

std::vector<ListedTensor> ListHfTensors(const std::filesystem::path& path) {
  return ListTensors(*OpenWeights(path));
}

}  // namespace folio
