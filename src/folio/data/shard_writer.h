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

// The format of the files of one part of a data set.
struct ShardLayout {
  std::string part;  // "train", "val"
  TokenWidth width = TokenWidth::k16;
  TokenFormat format = TokenFormat::kFolio;
  int64_t shard_tokens = 0;  // in each file but the last; 0: one file

  std::string FileName(size_t index) const;
};

// The state of a ShardWriter, which another one needs to continue later.
struct ShardProgress {
  std::vector<TokenShard> finished;
  int64_t tokens = 0;  // in the file after these
};

// Writes the files of one part into a directory, one after the other, growing in place. At least
// one file exists in the end, even without tokens. Files of a killed process can be continued by
// another writer from the last Checkpoint. All functions throw a kRuntime Error if a file cannot be
// written.
class ShardWriter {
 public:
  // Continues at `progress`; anything written after it is truncated. Throws a kInput Error if the
  // files do not match it.
  ShardWriter(std::filesystem::path dir, ShardLayout layout, ShardProgress progress = {});
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  // Appends tokens in the form of AppendTokenBytes. Throws a kUsage Error if the header of a file
  // cannot count them all.
  void Append(std::span<const std::byte> bytes);
  // Flushes the appended tokens to disk.
  ShardProgress Checkpoint();
  // Completes the last file, without flushing it to disk. Call last.
  std::vector<TokenShard> Finish();

 private:
  std::filesystem::path Path() const;  // of the growing file
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
  size_t durable_ = 0;  // this many finished files are flushed
  int fd_ = -1;         // of the growing file, or -1 if it does not exist yet
  Hasher hasher_;
};

}  // namespace folio
