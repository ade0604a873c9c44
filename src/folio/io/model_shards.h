#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "folio/io/safetensors.h"

namespace folio {

// A model in several files, as Hugging Face lays it out: a JSON file, the index, says in
// "weight_map" which tensor is in which of the files, "shards", that lie beside it. Its "metadata"
// is not looked at: sizes are checked against the shards themselves.

// All tensors of the shards: PyTorch's files of an index that IsTorchName (model_dir.h), else
// safetensors. The index is not trusted: shards are named by plain file names, every
// tensor is in the shard that the index says and in no other, and no shard holds a tensor that the
// index does not list.
class ModelShards : public TensorFile {
 public:
  explicit ModelShards(const std::filesystem::path& index, Loading loading = Loading::kMap);

 private:
  std::vector<std::shared_ptr<const TensorFile>> shards_;
};

// Writes the tensors (see WriteSafetensors) into the directory: as model.safetensors, or, where
// that would take more than `max_shard_bytes`, as shards of as many bytes at most, in the given
// order, with their index. A tensor that is larger has a shard of its own. REQUIRES: the directory
// holds neither from before.
void WriteSafetensorsShards(const std::filesystem::path& dir, std::span<const NamedTensor> tensors,
                            uint64_t max_shard_bytes);

}  // namespace folio
