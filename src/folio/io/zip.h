#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace folio {

// A file in a zip file, where it lies.
struct ZipEntry {
  std::string_view name;
  std::span<const std::byte> bytes;
  bool plain = true;  // false: compressed or encrypted, and so are the bytes
};

// The files in the zip file `file`, which was read from `path`, ascending by name. Sizes and
// offsets of 32 and of 64 bits; checksums are not looked at. Throws a kInput Error where two have
// one name or overlap, and where anything does not lie in the file as its list of contents says.
// https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
std::vector<ZipEntry> ReadZip(std::span<const std::byte> file, const std::filesystem::path& path);

}  // namespace folio
