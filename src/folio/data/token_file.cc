#include "folio/data/token_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "folio/base/check.h"
#include "folio/base/error.h"

namespace folio {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

int64_t Bytes(TokenWidth width) {
  return static_cast<int64_t>(width);
}

// Widens little-endian tokens into `out` and returns the largest.
template <class Word>
uint32_t Widen(const unsigned char* bytes, std::span<int32_t> out) {
  uint32_t largest = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    uint32_t value = 0;
    for (size_t b = 0; b < sizeof(Word); ++b) {
      value |= uint32_t{bytes[i * sizeof(Word) + b]} << (8 * b);
    }
    largest = std::max(largest, value);
    out[i] = static_cast<int32_t>(value);
  }
  return largest;
}

// The first value that an id may not have.
uint32_t Limit(int64_t vocab_size) {
  constexpr int64_t kMost = int64_t{1} << 31;
  return static_cast<uint32_t>(vocab_size == 0 ? kMost : std::min(vocab_size, kMost));
}

}  // namespace

TokenWidth WidthForVocab(int64_t vocab_size) {
  return vocab_size <= 65536 ? TokenWidth::k16 : TokenWidth::k32;
}

std::string_view TokenWidthName(TokenWidth width) {
  return width == TokenWidth::k16 ? "uint16" : "uint32";
}

TokenWriter::TokenWriter(const std::string& path, TokenWidth width) : file_(path), width_(width) {
  buffer_.reserve(kBufferBytes);
}

void TokenWriter::Append(std::span<const int32_t> ids) {
  for (const int32_t id : ids) {
    FOLIO_CHECK(id >= 0 && (width_ == TokenWidth::k32 || id < 65536), "id does not fit the width");
    for (int64_t b = 0; b < Bytes(width_); ++b) {
      buffer_.push_back(static_cast<unsigned char>(static_cast<uint32_t>(id) >> (8 * b)));
    }
    if (buffer_.size() == kBufferBytes) Flush();
  }
  tokens_ += static_cast<int64_t>(ids.size());
}

void TokenWriter::Flush() {
  file_.Write(std::as_bytes(std::span(buffer_)));
  buffer_.clear();
}

void TokenWriter::Finish() {
  Flush();
  file_.Commit();
}

TokenFile::TokenFile(const std::string& path, TokenWidth width, int64_t vocab_size)
    : path_(path),
      file_(path),
      width_(width),
      vocab_size_(vocab_size),
      bytes_(reinterpret_cast<const unsigned char*>(file_.bytes().data())),
      tokens_(static_cast<int64_t>(file_.bytes().size()) / Bytes(width)) {
  FOLIO_CHECK(vocab_size >= 0, "a vocabulary has no negative size");
  if (static_cast<int64_t>(file_.bytes().size()) % Bytes(width) != 0) {
    throw InputError(
        fmt::format("{}: not a file of {} tokens", path, TokenWidthName(width)),
        fmt::format("{} bytes are no multiple of {}", file_.bytes().size(), Bytes(width)),
        "the file is cut short or of another type; prepare the data again");
  }
}

uint32_t TokenFile::At(int64_t i) const {
  int32_t value = 0;
  const unsigned char* bytes = bytes_ + i * Bytes(width_);
  if (width_ == TokenWidth::k16) {
    Widen<uint16_t>(bytes, {&value, 1});
  } else {
    Widen<uint32_t>(bytes, {&value, 1});
  }
  return static_cast<uint32_t>(value);
}

void TokenFile::FailAt(int64_t begin, int64_t end, uint32_t limit) const {
  while (begin < end && At(begin) < limit) ++begin;
  throw InputError(
      fmt::format("{}: token {} is outside the vocabulary", path_, At(begin)),
      fmt::format("at position {}; ids must be below {}", begin, limit),
      "use the data with the tokenizer that it was prepared with, or prepare it again");
}

void TokenFile::Read(int64_t begin, std::span<int32_t> out) const {
  const int64_t count = static_cast<int64_t>(out.size());
  FOLIO_CHECK(begin >= 0 && count <= tokens_ && begin <= tokens_ - count, "outside the file");
  const unsigned char* bytes = bytes_ + begin * Bytes(width_);
  const uint32_t largest =
      width_ == TokenWidth::k16 ? Widen<uint16_t>(bytes, out) : Widen<uint32_t>(bytes, out);
  const uint32_t limit = Limit(vocab_size_);
  if (count > 0 && largest >= limit) FailAt(begin, begin + count, limit);
}

void TokenFile::Validate(int64_t vocab_size) const {
  constexpr int64_t kPiece = 1 << 16;
  std::vector<int32_t> piece(kPiece);
  const uint32_t limit = Limit(vocab_size);
  for (int64_t begin = 0; begin < tokens_; begin += kPiece) {
    const std::span<int32_t> out(piece.data(),
                                 static_cast<size_t>(std::min(kPiece, tokens_ - begin)));
    Read(begin, out);
    const bool good = std::all_of(out.begin(), out.end(),
                                  [&](int32_t id) { return static_cast<uint32_t>(id) < limit; });
    if (!good) FailAt(begin, begin + static_cast<int64_t>(out.size()), limit);
  }
}

}  // namespace folio
