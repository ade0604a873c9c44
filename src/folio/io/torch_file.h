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

// --- the zip file around it

// A file in a zip file, where it lies.
struct ZipEntry {
  std::string_view name;
  std::span<const std::byte> bytes;
  bool plain = true;  // false: compressed or encrypted, and so are the bytes
  bool encrypted = false;
  uint32_t checksum = 0;  // CRC-32 of what was put in; 0, as PyTorch may leave it: none was made
};

// The files in the zip file `file`, which was read from `path`, ascending by name. Sizes and
// offsets of 32 and of 64 bits; checksums are not looked at. Throws a kInput Error where two
// have one name or overlap, and where anything does not lie in the file as its list of contents
// says.
// https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
std::vector<ZipEntry> ReadZip(std::span<const std::byte> file, const std::filesystem::path& path);

// Writes a zip file: entries as they are, the bytes of each from a multiple of 64 on, as torch.save
// has them. From `see64` on sizes and offsets stand in fields of 64 bits.
class ZipWriter {
 public:
  explicit ZipWriter(AtomicFile& file, uint64_t see64 = 0xFFFFFFFF) : file_(file), see64_(see64) {}

  // REQUIRES: another name than before, shorter than 1,000 bytes.
  void Add(std::string_view name, std::span<const std::byte> bytes);
  // The list of contents; once, behind all entries.
  void Finish();

 private:
  AtomicFile& file_;
  uint64_t see64_;
  std::string list_;
  uint64_t entries_ = 0;
};

}  // namespace folio
