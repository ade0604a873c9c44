#include "folio/data/token_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/hash.h"

namespace folio {
namespace {

int64_t Bytes(TokenWidth width) {
  return static_cast<int64_t>(width);
}

// The first value that an id may not have.
uint32_t Limit(int64_t vocab_size) {
  constexpr int64_t kMost = int64_t{1} << 31;
  return static_cast<uint32_t>(vocab_size == 0 ? kMost : std::min(vocab_size, kMost));
}

}  // namespace

TokenFile::TokenFile(const std::string& path, TokenWidth width, int64_t vocab_size)
    : TokenFile(std::vector{path}, path, width, vocab_size) {}

TokenFile::TokenFile(const std::vector<std::string>& paths, std::string name, TokenWidth width,
                     int64_t vocab_size)
    : name_(std::move(name)), width_(width), vocab_size_(vocab_size) {
  if (vocab_size < 0) {
    throw UsageError(fmt::format("{}: a vocabulary of {} tokens cannot be", name_, vocab_size));
  }
  if (paths.empty()) throw UsageError(fmt::format("{}: no file of tokens is named", name_));
  shards_.reserve(paths.size());
  for (const std::string& path : paths) Add(path);
}

void TokenFile::Add(const std::string& path) {
  Shard shard;
  shard.path = path;
  shard.file = MappedFile(path);
  shard.bytes = shard.file.bytes();
  shard.begin = tokens_;
  if (const auto said = ReadTokenHeader(shard.bytes, path)) {
    if (*said != width_) {
      throw InputError(fmt::format("{}: not a file of {} tokens", path, TokenWidthName(width_)),
                       fmt::format("its header says that they are {}", TokenWidthName(*said)),
                       "the files of a data set have one type; prepare the data again");
    }
    shard.bytes = shard.bytes.subspan(kTokenHeaderBytes);
  }
  const size_t width = static_cast<size_t>(width_);
  if (shard.bytes.size() % width != 0) {
    throw InputError(fmt::format("{}: not a file of {} tokens", path, TokenWidthName(width_)),
                     fmt::format("{} bytes are no multiple of {}", shard.bytes.size(), width),
                     "the file is cut short or of another type; prepare the data again");
  }
  shard.tokens = static_cast<int64_t>(shard.bytes.size() / width);
  tokens_ += shard.tokens;
  shards_.push_back(std::move(shard));
}

template <class F>
void TokenFile::ForRuns(int64_t begin, int64_t count, F&& f) const {
  auto shard = std::upper_bound(shards_.begin(), shards_.end(), begin,
                                [](int64_t at, const Shard& other) { return at < other.begin; });
  for (--shard; count > 0; ++shard) {
    const int64_t at = begin - shard->begin;
    const int64_t run = std::min(count, shard->tokens - at);
    f(shard->bytes.data() + at * Bytes(width_), run);
    begin += run;
    count -= run;
  }
}

std::string TokenFile::ShardHash(size_t shard, const std::function<bool()>& stop) const {
  constexpr size_t kPiece = size_t{1} << 24;
  std::span<const std::byte> rest = shards_[shard].bytes;
  shards_[shard].file.Advise(MappedFile::Access::kSequential);
  Hasher hasher;
  while (!rest.empty()) {
    if (stop && stop()) return "";
    const std::span<const std::byte> piece = rest.first(std::min(kPiece, rest.size()));
    hasher.Add(piece);
    rest = rest.subspan(piece.size());
  }
  shards_[shard].file.Advise(MappedFile::Access::kNormal);
  return hasher.Hex();
}

std::string TokenFile::Fingerprint() const {
  constexpr int64_t kPieces = 64, kPiece = int64_t{1} << 18;
  Hasher hasher;
  hasher.Add(std::as_bytes(std::span(&tokens_, 1)));
  std::vector<int32_t> piece;
  const auto add = [&](int64_t begin, int64_t count) {
    piece.resize(static_cast<size_t>(count));
    Read(begin, piece);
    hasher.Add(std::as_bytes(std::span(piece)));
  };
  if (tokens_ <= kPieces * kPiece) {
    for (int64_t at = 0; at < tokens_; at += kPiece) add(at, std::min(kPiece, tokens_ - at));
  } else {
    for (int64_t i = 0; i < kPieces; ++i) add((tokens_ - kPiece) * i / (kPieces - 1), kPiece);
  }
  return hasher.Hex();
}

uint32_t TokenFile::At(int64_t i) const {
  uint32_t value = 0;
  int32_t as_read = 0;
  ForRuns(i, 1, [&](const std::byte* bytes, int64_t) {
    value = WidenTokens(bytes, width_, {&as_read, 1});
  });
  return value;
}

void TokenFile::FailAt(int64_t begin, int64_t end, uint32_t limit) const {
  while (begin < end && At(begin) < limit) ++begin;
  throw InputError(
      fmt::format("{}: token {} is outside the vocabulary", name_, At(begin)),
      fmt::format("at position {}; ids must be below {}", begin, limit),
      "use the data with the tokenizer that it was prepared with, or prepare it again");
}

void TokenFile::Read(int64_t begin, std::span<int32_t> out) const {
  const int64_t count = static_cast<int64_t>(out.size());
  if (begin < 0 || count > tokens_ || begin > tokens_ - count) {
    throw UsageError(fmt::format("{}: no tokens {} to {}", name_, begin, begin + count - 1),
                     fmt::format("it holds {}", tokens_));
  }
  uint32_t largest = 0;
  std::span<int32_t> rest = out;
  ForRuns(begin, count, [&](const std::byte* bytes, int64_t run) {
    largest = std::max(largest, WidenTokens(bytes, width_, rest.first(static_cast<size_t>(run))));
    rest = rest.subspan(static_cast<size_t>(run));
  });
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
