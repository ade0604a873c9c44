#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "folio/data/token_file.h"
#include "folio/io/file.h"

namespace folio {

// For tests: a token file without a header.
inline void WriteTokens(const std::filesystem::path& path, TokenWidth width,
                        std::span<const int32_t> ids) {
  std::vector<std::byte> bytes;
  AppendTokenBytes(ids, width, bytes);
  WriteFileAtomically(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace folio
