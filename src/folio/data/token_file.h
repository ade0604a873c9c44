#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "folio/data/token_format.h"
#include "folio/io/file.h"

namespace folio {

// One file of tokens.
struct TokenShard {
  std::string file;  // its name: "train.bin", "train_000000.bin"
  int64_t tokens = 0;
  std::string hash;  // HashHex of the bytes of its tokens, without a header

  bool operator==(const TokenShard&) const = default;
};

// The tokens of one memory-mapped file, or of several, one after the other; with or without llm.c's
// header. Positions are 64-bit.
class TokenFile {
 public:
  // `vocab_size` bounds the ids that may be read; 0 if it is not known. Throws a kInput Error if
  // a file's size does not fit the width, or its header says otherwise.
  TokenFile(const std::string& path, TokenWidth width, int64_t vocab_size);
  // `name` stands for all of them in messages.
  TokenFile(const std::vector<std::string>& paths, std::string name, TokenWidth width,
            int64_t vocab_size);

  int64_t size() const { return tokens_; }
  const std::string& path() const { return name_; }
  TokenWidth width() const { return width_; }
  int64_t vocab_size() const { return vocab_size_; }

  size_t shards() const { return shards_.size(); }
  const std::string& shard_path(size_t shard) const { return shards_[shard].path; }
  int64_t shard_tokens(size_t shard) const { return shards_[shard].tokens; }
  // HashHex of its tokens' bytes; reads all of them, or "" if `stop`, which is asked now and then,
  // wants no more.
  std::string ShardHash(size_t shard, const std::function<bool()>& stop = {}) const;
  // Tells this file from another in a moment: HashHex of how many tokens there are and of 64 pieces
  // of 2^18 of them, evenly spread, or of all if those are fewer. However they are divided into
  // files and of whatever width, equal tokens have equal fingerprints.
  std::string Fingerprint() const;

  // Tokens [begin, begin + out.size()). Throws a kInput Error naming the position if an id is
  // outside the vocabulary, and a kUsage Error if there are no such tokens.
  void Read(int64_t begin, std::span<int32_t> out) const;

  // Reads everything and throws like Read at the first id that is not below `vocab_size`.
  void Validate(int64_t vocab_size) const;

 private:
  struct Shard {
    std::string path;
    MappedFile file;
    std::span<const std::byte> bytes;  // of the tokens
    int64_t begin = 0;                 // its first token's place among all
    int64_t tokens = 0;
  };

  void Add(const std::string& path);
  // Calls f(bytes, tokens) for the runs of bytes that tokens [begin, begin + count) lie in.
  template <class F>
  void ForRuns(int64_t begin, int64_t count, F&& f) const;
  uint32_t At(int64_t i) const;
  [[noreturn]] void FailAt(int64_t begin, int64_t end, uint32_t limit) const;

  std::string name_;
  TokenWidth width_;
  int64_t vocab_size_;
  int64_t tokens_ = 0;
  std::vector<Shard> shards_;  // in order
};

}  // namespace folio
