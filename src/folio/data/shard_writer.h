#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "folio/base/hash.h"
#include "folio/data/token_file.h"

namespace folio {

// The shape of the files of one part of a data set.
struct ShardLayout {
  std::string part;  // "train", "val"
  TokenWidth width = TokenWidth::k16;
  TokenFormat format = TokenFormat::kFolio;
  int64_t shard_tokens = 0;  // of each file but the last; 0: one file

  std::string FileName(size_t index) const;
};

// How far a ShardWriter is: what must be kept to go on with another one later.
struct ShardProgress {
  std::vector<TokenShard> finished;
  int64_t tokens = 0;  // in the file after those

  int64_t total() const;
};

// Writes the files of one part into a directory, one after the other, growing in place. A file
// always exists in the end, even without tokens. A process that is killed leaves files that
// another writer can go on with, from the last Checkpoint.
// All but the constructor's checks throw a kRuntime Error where a file cannot be written.
class ShardWriter {
 public:
  // Goes on where `progress` says; what was written after it is cut off. Throws a kInput Error if
  // the files do not hold what it says.
  ShardWriter(std::filesystem::path dir, ShardLayout layout, ShardProgress progress = {});
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  // Tokens as AppendTokenBytes makes them. A file with a header that cannot count them all is a
  // kUsage Error.
  void Append(std::span<const std::byte> bytes);
  // Makes what was appended durable.
  ShardProgress Checkpoint();
  // Completes the last file. Does not make it durable. Nothing may follow.
  std::vector<TokenShard> Finish();

 private:
  std::filesystem::path Path() const;  // of the file that grows
  size_t HeaderBytes() const;
  void CheckFinished() const;
  void Reopen();
  void Open();
  void WriteHeader(int64_t tokens);
  void Write(std::span<const std::byte> bytes, int64_t at);
  void CompleteFile();

  std::filesystem::path dir_;
  ShardLayout layout_;
  ShardProgress progress_;
  size_t durable_ = 0;  // so many finished files are
  int fd_ = -1;         // of the file that grows, or -1 where it does not exist yet
  Hasher hasher_;
};

}  // namespace folio
