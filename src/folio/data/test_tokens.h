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

// Tokens of a file from `begin` on; without a count all that are left.
inline std::vector<int32_t> ReadTokens(const TokenFile& file, int64_t begin = 0,
                                       int64_t count = -1) {
  std::vector<int32_t> ids(static_cast<size_t>(count < 0 ? file.size() - begin : count));
  file.Read(begin, ids);
  return ids;
}

}  // namespace folio
