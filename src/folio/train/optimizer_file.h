#pragma once

#include <filesystem>
#include <span>

#include "folio/dist/shards.h"
#include "folio/io/safetensors.h"
#include "folio/model/params.h"
#include "folio/train/optimizer.h"

namespace folio {

// The optimizer's state in a checkpoint, a safetensors file: for each trained parameter P and each
// array A of the state a tensor "A.P" of P's shape. Here the arrays of `state` are laid out as what
// is trained of a ParamTable, or as the pieces that a rank owns of that.

// Writes the state of a whole model. Throws as WriteSafetensors does.
void WriteOptimizerFile(const std::filesystem::path& path, const ParamTable& table,
                        std::span<const NamedTensor> state);

// Reads the pieces that this rank owns (`shards`, null for one rank alone) of the model of
// `table`, or of the shard that it is of. Throws a kInput Error where the file is missing or of
// another model.
void ReadOptimizerFile(const std::filesystem::path& path, const ParamTable& table,
                       const Optimizer& optimizer, const Shards* shards, int rank);

// An optimizer file that all ranks write at the same time, each its pieces. All see the same file
// system; the first rank then puts the file in its place.
class SharedOptimizerFile {
 public:
  SharedOptimizerFile(std::filesystem::path path, const GptWeights& weights);

  const std::filesystem::path& path() const { return path_; }
  // Makes the file as long as it will be, with its header. The first rank calls it. Throws a
  // kRuntime Error if it cannot.
  void Create() const;
  // Returns whether this rank can write the file that the first has created.
  bool IsHere() const;
  // Writes the pieces of a rank and flushes them. Throws a kRuntime Error if it cannot.
  void Write(const Shards& shards, int rank, std::span<const NamedTensor> state) const;

 private:
  std::filesystem::path path_;
  const ParamTable& table_;
  SafetensorsLayout layout_;
};

}  // namespace folio
