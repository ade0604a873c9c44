#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "folio/data/dataset.h"
#include "folio/data/test_tokens.h"

// Data sets for the tests of this room.

namespace folio {

// Writes train.bin and val.bin into `dir`, which is made, and opens them.
inline std::unique_ptr<Dataset> MakeDataset(const std::filesystem::path& dir,
                                            std::span<const int32_t> train,
                                            std::span<const int32_t> val, int64_t vocab_size) {
  CreateDirectories(dir);
  for (const auto& [name, tokens] : {std::pair{kTrainFile, train}, std::pair{kValFile, val}}) {
    WriteTokens(dir / name, TokenWidth::k16, tokens);
  }
  return std::make_unique<Dataset>(dir.string(), vocab_size);
}

}  // namespace folio
