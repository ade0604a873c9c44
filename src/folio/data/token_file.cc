#include "folio/data/token_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/hash.h"

namespace folio {
namespace {

constexpr int32_t kMagic = 20240520;
constexpr int32_t kVersion = 1;

int64_t Bytes(TokenWidth width) {
  return static_cast<int64_t>(width);
}

// Widens little-endian tokens into `out` and returns the largest.
template <class Word>
uint32_t WidenWords(const std::byte* bytes, std::span<int32_t> out) {
  uint32_t largest = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    uint32_t value = 0;
    for (size_t b = 0; b < sizeof(Word); ++b) {
      value |= std::to_integer<uint32_t>(bytes[i * sizeof(Word) + b]) << (8 * b);
    }
    largest = std::max(largest, value);
    out[i] = static_cast<int32_t>(value);
  }
  return largest;
}

uint32_t Widen(const std::byte* bytes, TokenWidth width, std::span<int32_t> out) {
  return width == TokenWidth::k16 ? WidenWords<uint16_t>(bytes, out)
                                  : WidenWords<uint32_t>(bytes, out);
}

// Whether `file` begins with a header. Throws a kInput Error naming `path` if it is right and the
// length is not.
bool HasTokenHeader(std::span<const std::byte> file, const std::string& path) {
  if (file.size() < kTokenHeaderBytes) return false;
  std::array<int32_t, kTokenHeaderBytes / 4> words;
  WidenWords<uint32_t>(file.data(), words);
  if (words[0] != kMagic || words[1] != kVersion ||
      std::any_of(words.begin() + 3, words.end(), [](int32_t word) { return word != 0; })) {
    return false;
  }
  const auto tokens = static_cast<uint32_t>(words[2]);
  const uint64_t held = file.size() - kTokenHeaderBytes;
  if (tokens > kMaxHeaderTokens || held != uint64_t{2} * tokens) {
    throw InputError(
        fmt::format("{}: wrong length", path),
        fmt::format("its header tells of {} tokens of 2 bytes, {} bytes follow it", tokens, held),
        "the file was cut short; make it again");
  }
  return true;
}

// Writes little-endian words; one plain loop, so that compilers turn it into vector code.
template <class Word>
void Narrow(std::span<const int32_t> ids, std::byte* out) {
  for (size_t i = 0; i < ids.size(); ++i) {
    Word word = static_cast<Word>(ids[i]);
    if constexpr (std::endian::native == std::endian::big) {
      Word swapped = 0;
      for (size_t b = 0; b < sizeof(Word); ++b) {
        swapped = static_cast<Word>(swapped << 8 | (word & 0xFF));
        word = static_cast<Word>(word >> 8);
      }
      word = swapped;
    }
    std::memcpy(out + i * sizeof(Word), &word, sizeof(Word));
  }
}

// The first value that an id may not have.
uint32_t Limit(int64_t vocab_size) {
  constexpr int64_t kMost = int64_t{1} << 31;
  return static_cast<uint32_t>(vocab_size == 0 ? kMost : std::min(vocab_size, kMost));
}

}  // namespace

std::string_view TokenFormatName(TokenFormat format) {
  return format == TokenFormat::kFolio ? "folio" : "llmc";
}

std::optional<TokenFormat> FindTokenFormat(std::string_view name) {
  for (const TokenFormat format : {TokenFormat::kFolio, TokenFormat::kLlmC}) {
    if (name == TokenFormatName(format)) return format;
  }
  return std::nullopt;
}

TokenWidth WidthForVocab(int64_t vocab_size) {
  return vocab_size <= 65536 ? TokenWidth::k16 : TokenWidth::k32;
}

std::string_view TokenWidthName(TokenWidth width) {
  return width == TokenWidth::k16 ? "uint16" : "uint32";
}

void AppendTokenBytes(std::span<const int32_t> ids, TokenWidth width, std::vector<std::byte>& out) {
  uint32_t all = 0;
  for (const int32_t id : ids) all |= static_cast<uint32_t>(id);
  FOLIO_CHECK(all <= (width == TokenWidth::k16 ? 0xFFFFu : 0x7FFFFFFFu),
              "id does not fit the width");
  const size_t begin = out.size();
  out.resize(begin + ids.size() * static_cast<size_t>(width));
  if (width == TokenWidth::k16) {
    Narrow<uint16_t>(ids, out.data() + begin);
  } else {
    Narrow<uint32_t>(ids, out.data() + begin);
  }
}

std::string TokenHeader(int64_t tokens) {
  FOLIO_CHECK(tokens >= 0 && tokens <= kMaxHeaderTokens, "more tokens than the header can tell of");
  std::vector<std::byte> words;
  AppendTokenBytes(std::array{kMagic, kVersion, static_cast<int32_t>(tokens)}, TokenWidth::k32,
                   words);
  std::string header(reinterpret_cast<const char*>(words.data()), words.size());
  header.resize(kTokenHeaderBytes);
  return header;
}

TokenFile::TokenFile(const std::string& path, TokenWidth width, int64_t vocab_size)
    : TokenFile(std::vector{path}, path, width, vocab_size) {}

TokenFile::TokenFile(const std::vector<std::string>& paths, std::string name, TokenWidth width,
                     int64_t vocab_size)
    : name_(std::move(name)), width_(width), vocab_size_(vocab_size) {
  FOLIO_CHECK(vocab_size >= 0, "a vocabulary has no negative size");
  FOLIO_CHECK(!paths.empty(), "tokens lie in a file");
  shards_.reserve(paths.size());
  for (const std::string& path : paths) Add(path);
}

void TokenFile::Add(const std::string& path) {
  Shard shard;
  shard.path = path;
  shard.file = MappedFile(path);
  shard.bytes = shard.file.bytes();
  shard.begin = tokens_;
  if (width_ == TokenWidth::k16 && HasTokenHeader(shard.bytes, path)) {
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

std::string TokenFile::ShardHash(size_t shard) const {
  const std::span<const std::byte> bytes = shards_[shard].bytes;
  shards_[shard].file.Advise(MappedFile::Access::kSequential);
  return HashHex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

uint32_t TokenFile::At(int64_t i) const {
  int32_t value = 0;
  ForRuns(i, 1, [&](const std::byte* bytes, int64_t) { Widen(bytes, width_, {&value, 1}); });
  return static_cast<uint32_t>(value);
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
  FOLIO_CHECK(begin >= 0 && count <= tokens_ && begin <= tokens_ - count, "outside the file");
  uint32_t largest = 0;
  std::span<int32_t> rest = out;
  ForRuns(begin, count, [&](const std::byte* bytes, int64_t run) {
    largest = std::max(largest, Widen(bytes, width_, rest.first(static_cast<size_t>(run))));
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
