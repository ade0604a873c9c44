#pragma once

#include <string>
#include <string_view>

namespace folio {

// The bytes as a stream of "gzip", "bzip2", "xz" or "zstd", made by libarchive.
std::string Compressed(std::string_view bytes, std::string_view how);

}  // namespace folio
