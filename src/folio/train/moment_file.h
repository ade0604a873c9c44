#pragma once

#include <filesystem>

#include "folio/dist/shards.h"
#include "folio/io/safetensors.h"
#include "folio/model/params.h"

namespace folio {

// AdamW's moments of all ranks in one file (train_state.h), which each rank writes its pieces of,
// at the same time. Whoever writes it sees the same file system; the first rank then puts it in its
// place.
class MomentFile {
 public:
  MomentFile(std::filesystem::path path, const GptWeights& weights);

  const std::filesystem::path& path() const { return path_; }
  // By the first rank: as long as it will be, with its header. Throws a kRuntime Error if it
  // cannot.
  void Create() const;
  // Whether this rank can write the file that the first has created.
  bool IsHere() const;
  // Writes the pieces of a rank and flushes them. Throws a kRuntime Error if it cannot.
  void Write(const Shards& shards, int rank, const float* m, const float* v) const;

 private:
  std::filesystem::path path_;
  const ParamTable& table_;
  SafetensorsLayout layout_;
};

}  // namespace folio
