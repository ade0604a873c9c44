#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "folio/io/tensor_file.h"

namespace folio {

// The safetensors format: 8 bytes little-endian header length, a JSON header, then the data of all
// tensors without gaps. https://github.com/huggingface/safetensors

using SafetensorsMetadata = std::map<std::string, std::string>;

// A safetensors file. Once opened it is sound from end to end (see TensorFile).
class SafetensorsFile : public TensorFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path, Loading loading = Loading::kMap);

  const SafetensorsMetadata& metadata() const { return metadata_; }

 private:
  SafetensorsMetadata metadata_;
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
  std::optional<Dtype> as = {};  // dtype in the file for a float32 tensor, F16 or BF16
  // Returns the rows of a float32 tensor that is not in memory, like TensorToWrite's
  // (tensor_file.h).
  std::function<void(int64_t row, std::span<float> rows)> read = {};

  Dtype stored() const { return as.value_or(tensor.dtype()); }
  uint64_t stored_bytes() const {
    return static_cast<uint64_t>(tensor.count()) * DtypeSize(stored());
  }
};

// Writes the tensors, largest element first and then by name, so that each is aligned; the data
// begins at a multiple of 64 bytes. The file appears atomically, and data goes from the tensors'
// memory straight to it. {"format": "pt"}, which other readers need, is added to `metadata` unless
// it has a format. REQUIRES: names are UTF-8, distinct and not "__metadata__"; no tensor is absent.
// Throws a kRuntime Error if it cannot be written.
void WriteSafetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                      SafetensorsMetadata metadata = {});

// The file that WriteSafetensors would write for these tensors, for several writers that each write
// a part of it: the header, the offset of each tensor's data, by name, and the total size.
struct SafetensorsLayout {
  std::string header;
  std::map<std::string, uint64_t> offsets;
  uint64_t bytes = 0;
};
SafetensorsLayout LayOutSafetensors(std::span<const NamedTensor> tensors,
                                    SafetensorsMetadata metadata = {});

// A model in several files, in Hugging Face's layout: a JSON file, the index, maps each tensor in
// "weight_map" to one of the files, "shards", in the same directory. Its "metadata" is ignored:
// sizes are checked against the shards themselves.

// All tensors of the shards: PyTorch's files for an index that IsTorchName (model_dir.h), else
// safetensors. The index is not trusted: shards are plain file names, every tensor is in the shard
// that the index names and in no other, and no shard holds a tensor that the index does not list.
class ModelShards : public TensorFile {
 public:
  explicit ModelShards(const std::filesystem::path& index, Loading loading = Loading::kMap);

 private:
  std::vector<std::shared_ptr<const TensorFile>> shards_;
};

// Writes the tensors (see WriteSafetensors) into the directory: as model.safetensors, or, if that
// would take more than `max_shard_bytes`, as shards of at most that many bytes, in the given order,
// with their index. A larger tensor gets a shard of its own. REQUIRES: the directory holds neither
// from before.
void WriteSafetensorsShards(const std::filesystem::path& dir, std::span<const NamedTensor> tensors,
                            uint64_t max_shard_bytes);

}  // namespace folio
