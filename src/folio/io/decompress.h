#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace folio {

// Appends up to `wanted` further bytes and returns how many, 0 only at the end. May throw.
using ReadBytes = std::function<size_t(std::string& out, size_t wanted)>;

enum class Compression { kGzip, kBzip2, kXz, kZstd };

// The compression of a stream that begins with `head`, if it is one of these.
std::optional<Compression> FindCompression(std::string_view head);
std::string_view CompressionName(Compression compression);  // "gzip", "bzip2", "xz", "zstd"

// The contents of compressed bytes; several streams in a row count as one, as for the programs of
// those names. gzip (RFC 1952) is read with zlib, since libarchive ignores its checksums. Reading
// throws a kInput Error that names `name` if a stream is damaged, cut short or followed by other
// bytes, and a kRuntime Error if libarchive, which all others need, is missing.
ReadBytes Decompress(ReadBytes from, Compression compression, std::string name);

}  // namespace folio
