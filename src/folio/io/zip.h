#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/io/file.h"

namespace folio {

// A file in a zip file, where it lies.
struct ZipEntry {
  std::string_view name;
  std::span<const std::byte> bytes;
  bool plain = true;  // false: compressed or encrypted, and so are the bytes
  bool encrypted = false;
  uint32_t checksum = 0;  // CRC-32 of what was put in; 0, as PyTorch may leave it: none was made
};

// The files in the zip file `file`, which was read from `path`, ascending by name. Sizes and
// offsets of 32 and of 64 bits; checksums are CheckZip's business. Throws a kInput Error where two
// have one name or overlap, and where anything does not lie in the file as its list of contents
// says.
// https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
std::vector<ZipEntry> ReadZip(std::span<const std::byte> file, const std::filesystem::path& path);

// Throws a kInput Error that names the first plain entry whose bytes are not those of its checksum:
// a pass over all of them, by several threads.
void CheckZip(const std::vector<ZipEntry>& entries, const std::filesystem::path& path);

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
