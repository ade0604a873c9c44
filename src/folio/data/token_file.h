#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/io/file.h"

namespace folio {

// How a token file begins. kFolio: with the first token. kLlmC: with the header of llm.c, 256
// little-endian int32, which are 20240520, 1, the number of tokens and zeros; its tokens are
// uint16.
enum class TokenFormat { kFolio, kLlmC };

std::string_view TokenFormatName(TokenFormat format);  // "folio", "llmc"
std::optional<TokenFormat> FindTokenFormat(std::string_view name);

// Bytes of one token in a file: little-endian uint16 or uint32.
enum class TokenWidth { k16 = 2, k32 = 4 };

// The narrowest width that holds ids 0 .. vocab_size - 1.
TokenWidth WidthForVocab(int64_t vocab_size);
std::string_view TokenWidthName(TokenWidth width);  // "uint16", "uint32"

// Appends the ids as a file holds them. REQUIRES: every id is at least 0 and fits the width.
void AppendTokenBytes(std::span<const int32_t> ids, TokenWidth width, std::vector<std::byte>& out);

inline constexpr size_t kTokenHeaderBytes = 1024;
// The most tokens that the header can tell of.
inline constexpr int64_t kMaxHeaderTokens = INT32_MAX;

// REQUIRES: 0 <= tokens <= kMaxHeaderTokens.
std::string TokenHeader(int64_t tokens);

// The tokens of one memory-mapped file, or of several, one after the other; with or without llm.c's
// header. Positions are 64-bit.
class TokenFile {
 public:
  // `vocab_size` bounds the ids that may be read; 0 if it is not known. Throws a kInput Error if
  // a file's size does not fit the width or its header.
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
  // HashHex of its tokens' bytes; reads all of them.
  std::string ShardHash(size_t shard) const;

  // Tokens [begin, begin + out.size()). Throws a kInput Error naming the position if an id is
  // outside the vocabulary. REQUIRES: 0 <= begin and begin + out.size() <= size().
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
