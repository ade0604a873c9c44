#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "folio/io/json.h"
#include "folio/io/tensor_file.h"

namespace folio {

// Returns whether `path` looks like something that PyTorch's torch.save has written since
// version 1.6, or before.
bool IsTorchFile(const std::filesystem::path& path);

// A dictionary as torch.save writes it: a zip file of a pickle (io/pickle.h) and the tensors' data.
// Tensors have the names that the dictionary gives them; those of dictionaries in it have those
// names too, "optimizer/state/0/exp_avg". One whose numbers do not lie in their order is put
// together in memory, as long as all such take no more than the file. Throws a kInput Error as
// TensorFile does, and where the file is in a format that folio does not read: that of PyTorch
// before 1.6, TorchScript, or with things that are neither tensors nor plain values.
class TorchFile : public TensorFile {
 public:
  explicit TorchFile(const std::filesystem::path& path, Loading loading = Loading::kMap);

  // The dictionary without the tensors: numbers, texts, lists and dictionaries.
  const Json& values() const { return values_; }

 private:
  friend class TorchReader;
  Json values_;
};

// Writes a dictionary as torch.save does: the plain `values`, and at `key` another dictionary of
// the tensors, float32, float16 or bfloat16 ones. Each pair of `same` is a name that it has too,
// and that of a tensor whose storage it shares. The file appears whole or not at all. Throws a
// kInput Error where a number cannot be written as its tensor's dtype, a kRuntime Error if it
// cannot be written.
void WriteTorchFile(const std::filesystem::path& path, const Json& values, std::string_view key,
                    std::span<const TensorToWrite> tensors,
                    std::span<const std::pair<std::string, std::string>> same = {});

}  // namespace folio
