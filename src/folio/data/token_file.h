#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/io/file.h"

namespace folio {

// Bytes of one token in a file: raw little-endian uint16 or uint32 without a header.
enum class TokenWidth { k16 = 2, k32 = 4 };

// The narrowest width that holds ids 0 .. vocab_size - 1.
TokenWidth WidthForVocab(int64_t vocab_size);
std::string_view TokenWidthName(TokenWidth width);  // "uint16", "uint32"

// Writes a token file piece by piece with bounded memory. The file appears under its name only when
// Finish is called.
class TokenWriter {
 public:
  TokenWriter(const std::string& path, TokenWidth width);

  // REQUIRES: every id is at least 0 and fits the width.
  void Append(std::span<const int32_t> ids);
  int64_t tokens() const { return tokens_; }
  void Finish();

 private:
  void Flush();

  AtomicFile file_;
  TokenWidth width_;
  int64_t tokens_ = 0;
  std::vector<unsigned char> buffer_;
};

// A memory-mapped token file; positions are 64-bit.
class TokenFile {
 public:
  // `vocab_size` bounds the ids that may be read; 0 if it is not known. Throws a kInput Error if
  // the file's size is not a multiple of the width.
  TokenFile(const std::string& path, TokenWidth width, int64_t vocab_size);

  int64_t size() const { return tokens_; }
  const std::string& path() const { return path_; }
  TokenWidth width() const { return width_; }
  int64_t vocab_size() const { return vocab_size_; }

  // Tokens [begin, begin + out.size()). Throws a kInput Error naming the position if an id is
  // outside the vocabulary. REQUIRES: 0 <= begin and begin + out.size() <= size().
  void Read(int64_t begin, std::span<int32_t> out) const;

  // Reads the whole file and throws like Read at the first id that is not below `vocab_size`.
  void Validate(int64_t vocab_size) const;

 private:
  uint32_t At(int64_t i) const;
  [[noreturn]] void FailAt(int64_t begin, int64_t end, uint32_t limit) const;

  std::string path_;
  MappedFile file_;
  TokenWidth width_;
  int64_t vocab_size_;
  const unsigned char* bytes_;  // of file_
  int64_t tokens_;
};

}  // namespace folio
