#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "folio/io/byte_reader.h"
#include "folio/io/tensor_file.h"

namespace folio {

// A checkpoint of TensorFlow's tensor bundles, in one shard: PREFIX.index, a sorted-string table
// from names to places, and PREFIX.data-00000-of-00001. The checksums of the index and of all
// tensors are verified. Throws a kInput Error as TensorFile does, and for what OpenAI's checkpoints
// do not have: compressed tables, several shards, big-endian numbers, partitioned or text tensors.
// https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/util/tensor_bundle
// https://github.com/google/leveldb/blob/main/doc/table_format.md
class TfBundle : public TensorFile {
 public:
  // `prefix` is the path without ".index".
  explicit TfBundle(const std::filesystem::path& prefix, Loading loading = Loading::kMap);

 private:
  void AddEntry(std::string_view name, ByteReader entry, std::span<const std::byte> data);

  std::vector<uint32_t> checksums_;  // of tensors(), in the file's order
};

}  // namespace folio
