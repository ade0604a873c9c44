#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/io/tensor_file.h"

namespace folio {

// Returns true if `path` looks like a file of PyTorch's torch.save, of version 1.6 or later, or of
// an older one.
bool IsTorchFile(const std::filesystem::path& path);

// A dictionary as torch.save writes it: a zip file of a pickle (io/pickle.h) and the tensors' data.
// Tensors have their names in the dictionary; names inside of nested dictionaries have the keys
// before them, "optimizer/state/0/exp_avg". A tensor that is not contiguous is copied to memory, as
// long as all copies take no more than the file. Throws a kInput Error as TensorFile does, and for
// formats that folio does not read: that of PyTorch before 1.6, TorchScript, or values that are
// neither tensors nor plain.
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
// the tensors, float32, float16 or bfloat16 ones. Each pair of `same` is a further name and that of
// the tensor whose storage it shares. The file appears atomically. Throws a kInput Error if a
// number cannot be written as its tensor's dtype, a kRuntime Error if the file cannot be written.
void WriteTorchFile(const std::filesystem::path& path, const Json& values, std::string_view key,
                    std::span<const TensorToWrite> tensors,
                    std::span<const std::pair<std::string, std::string>> same = {});

// --- the zip file around it

// An entry of a zip file.
struct ZipEntry {
  std::string_view name;
  std::span<const std::byte> bytes;
  bool plain = true;  // false: compressed or encrypted, and `bytes` is so
  bool encrypted = false;
  uint32_t checksum = 0;  // CRC-32 of the uncompressed contents; 0 for none, which PyTorch may
                          // write
};

// The entries of the zip file `file`, which was read from `path`, sorted by name. Supports 32-bit
// and 64-bit sizes and offsets; checksums are not verified. Throws a kInput Error if two entries
// have one name or overlap, or if anything differs from the list of contents.
// https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
std::vector<ZipEntry> ReadZip(std::span<const std::byte> file, const std::filesystem::path& path);

// Writes a zip file: uncompressed entries, each aligned to 64 bytes, like torch.save. Sizes and
// offsets of `see64` or more use 64-bit fields.
class ZipWriter {
 public:
  explicit ZipWriter(AtomicFile& file, uint64_t see64 = 0xFFFFFFFF) : file_(file), see64_(see64) {}

  // REQUIRES: a new name, shorter than 1,000 bytes.
  void Add(std::string_view name, std::span<const std::byte> bytes);
  // Writes the list of contents. Call once, after all entries.
  void Finish();

 private:
  AtomicFile& file_;
  uint64_t see64_;
  std::string list_;
  uint64_t entries_ = 0;
};

}  // namespace folio
