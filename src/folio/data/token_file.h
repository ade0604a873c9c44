#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/io/file.h"

namespace folio {

// The begin of a token file. kFolio: the first token. kLlmC: the header of llm.c, 256 little-endian
// int32: a magic number, a version, the number of tokens, and zeros. GPT-2's tokens (20240520,
// version 1) are uint16, Llama 3's (20240801, version 7) uint32.
enum class TokenFormat { kFolio, kLlmC };

std::string_view TokenFormatName(TokenFormat format);  // "folio", "llmc"
std::optional<TokenFormat> FindTokenFormat(std::string_view name);

// Bytes of one token in a file: little-endian uint16, uint32 or int64. folio writes the first two.
enum class TokenWidth { k16 = 2, k32 = 4, k64 = 8 };

// The narrowest width that holds ids 0 .. vocab_size - 1.
TokenWidth WidthForVocab(int64_t vocab_size);
std::string_view TokenWidthName(TokenWidth width);  // "uint16", "uint32", "int64"

// Appends the ids in the form of a file. An id below 0 or that does not fit is a kUsage Error.
void AppendTokenBytes(std::span<const int32_t> ids, TokenWidth width, std::vector<std::byte>& out);

// Widens little-endian tokens into `out` and returns the largest; values beyond int32 count as
// UINT32_MAX. REQUIRES: `bytes` has out.size() tokens.
uint32_t WidenTokens(const std::byte* bytes, TokenWidth width, std::span<int32_t> out);

inline constexpr size_t kTokenHeaderBytes = 1024;
// The most tokens that the header can count.
inline constexpr int64_t kMaxHeaderTokens = INT32_MAX;

// The header of llm.c for tokens of this width. REQUIRES: 0 <= tokens <= kMaxHeaderTokens and a
// width that llm.c has.
std::string TokenHeader(int64_t tokens, TokenWidth width);

// The width of the tokens behind llm.c's header, or nothing if `file` does not begin with one.
// Throws a kInput Error naming `path` for an unknown version, for other kinds of llm.c's files, and
// if the length does not match the header.
std::optional<TokenWidth> ReadTokenHeader(std::span<const std::byte> file, const std::string& path);

// Guesses the width of tokens in files without a header from their bytes. Files of one data set
// have one width: add all of them.
class TokenWidthGuess {
 public:
  // Samples `file`.
  void Add(std::span<const std::byte> file);

  // int64 if in every 8 bytes the upper 4, and the upper 12 bits of the lower 4, are zero; else
  // uint32 if that holds for every 4 bytes and their lower 2 are not as small too, as they are in
  // pairs of characters' ids; else uint16. All zeros are uint16, and a file whose length is no
  // multiple of a width does not have it.
  TokenWidth width() const;

 private:
  void AddGroup(std::span<const std::byte> group);

  uint64_t odd_bytes_ = 0;           // lengths, or-ed: their low bits exclude widths
  uint32_t even_ = 0, odd_ = 0;      // largest 16-bit word at even places and at odd places
  uint32_t second_ = 0, upper_ = 0;  // in every four: largest second word, and of the last two
};

// One file of tokens.
struct TokenShard {
  std::string file;  // its name: "train.bin", "train_000000.bin"
  int64_t tokens = 0;
  std::string hash;  // HashHex of the bytes of its tokens, without a header

  bool operator==(const TokenShard&) const = default;
};

// The tokens of one memory-mapped file, or of several in a row; with or without llm.c's header.
// Positions are 64-bit.
class TokenFile {
 public:
  // Ids must be below `vocab_size`; 0 if it is not known. Throws a kInput Error if a file's size
  // does not match the width or its header.
  TokenFile(const std::string& path, TokenWidth width, int64_t vocab_size);
  // `name` stands for all files in messages.
  TokenFile(const std::vector<std::string>& paths, std::string name, TokenWidth width,
            int64_t vocab_size);

  int64_t size() const { return tokens_; }
  const std::string& path() const { return name_; }
  TokenWidth width() const { return width_; }
  int64_t vocab_size() const { return vocab_size_; }

  size_t shards() const { return shards_.size(); }
  const std::string& shard_path(size_t shard) const { return shards_[shard].path; }
  int64_t shard_tokens(size_t shard) const { return shards_[shard].tokens; }
  // HashHex of its tokens' bytes; reads all of them. Returns "" if `stop`, which is called now and
  // then, returns true.
  std::string ShardHash(size_t shard, const std::function<bool()>& stop = {}) const;
  // Identifies the tokens quickly: HashHex of their number and of 64 evenly spread pieces of 2^18
  // tokens, or of all if there are fewer. Equal tokens have equal fingerprints, whatever their
  // width and their division into files.
  std::string Fingerprint() const;

  // Tokens [begin, begin + out.size()). Throws a kInput Error naming the position if an id is
  // outside of the vocabulary, and a kUsage Error if the range is.
  void Read(int64_t begin, std::span<int32_t> out) const;

  // Reads all tokens and throws like Read at the first id that is not below `vocab_size`.
  void Validate(int64_t vocab_size) const;

 private:
  struct Shard {
    std::string path;
    MappedFile file;
    std::span<const std::byte> bytes;  // of the tokens
    int64_t begin = 0;                 // place of its first token among all
    int64_t tokens = 0;
  };

  void Add(const std::string& path);
  // Calls f(bytes, tokens) for the runs of bytes of tokens [begin, begin + count).
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
