#include "folio/data/token_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/hash.h"
#include "folio/io/byte_reader.h"

namespace folio {
namespace {

// The first numbers of llm.c's token files and question files.
constexpr int32_t kGpt2Magic = 20240520, kLlama3Magic = 20240801, kEvaluationMagic = 20240522;
constexpr int32_t kVersion16 = 1, kVersion32 = 7;

// Ids of realistic vocabularies are below 2^20: the upper 16-bit word of one is below this.
constexpr uint32_t kUpperLimit = 16;

template <class Word>
uint32_t WidenWords(const std::byte* bytes, std::span<int32_t> out) {
  uint32_t largest = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    const auto value = LittleEndian<Word>(bytes + i * sizeof(Word));
    largest = std::max(largest, static_cast<uint32_t>(std::min<uint64_t>(value, UINT32_MAX)));
    out[i] = static_cast<int32_t>(value);
  }
  return largest;
}

// Writes little-endian words in one plain loop, which compilers vectorise.
template <class Word>
void Narrow(std::span<const int32_t> ids, std::byte* out) {
  for (size_t i = 0; i < ids.size(); ++i) {
    const Word word = static_cast<Word>(ids[i]);
    std::memcpy(out + i * sizeof(Word), &word, sizeof(Word));
  }
}

// Calls f with a word of this width.
template <class F>
auto WithWord(TokenWidth width, F&& f) {
  switch (width) {
    case TokenWidth::k16:
      return f(uint16_t{});
    case TokenWidth::k32:
      return f(uint32_t{});
    default:
      return f(uint64_t{});
  }
}

Error NotLlmC(const std::string& path, std::string cause) {
  return InputError(
      fmt::format("{}: unsupported llm.c token file", path), std::move(cause),
      "versions 1 (uint16) and 7 (uint32) are supported; create the file again with one");
}

Error WrongLength(const std::string& path, std::string cause) {
  return InputError(fmt::format("{}: wrong length", path), std::move(cause),
                    "the file was truncated; create it again");
}

// The first value that is no valid id.
uint32_t Limit(int64_t vocab_size) {
  constexpr int64_t kMost = int64_t{1} << 31;
  return static_cast<uint32_t>(vocab_size == 0 ? kMost : std::min(vocab_size, kMost));
}

}  // namespace

std::string_view TokenFormatName(TokenFormat format) {
  return format == TokenFormat::kFolio ? "folio" : "llmc";
}

std::optional<TokenFormat> FindTokenFormat(std::string_view name) {
  if (name == "folio") return TokenFormat::kFolio;
  return name == "llmc" ? std::optional(TokenFormat::kLlmC) : std::nullopt;
}

TokenWidth WidthForVocab(int64_t vocab_size) {
  return vocab_size <= 65536 ? TokenWidth::k16 : TokenWidth::k32;
}

std::string_view TokenWidthName(TokenWidth width) {
  return width == TokenWidth::k16 ? "uint16" : width == TokenWidth::k32 ? "uint32" : "int64";
}

void AppendTokenBytes(std::span<const int32_t> ids, TokenWidth width, std::vector<std::byte>& out) {
  uint32_t all = 0;
  for (const int32_t id : ids) all |= static_cast<uint32_t>(id);
  if (all > (width == TokenWidth::k16 ? 0xFFFFu : 0x7FFFFFFFu)) {
    throw UsageError(fmt::format("an id does not fit in {}", TokenWidthName(width)),
                     "ids must not be negative", "use a wider type, or the tokenizer of these ids");
  }
  const size_t begin = out.size();
  out.resize(begin + ids.size() * static_cast<size_t>(width));
  WithWord(width, [&]<class Word>(Word) { Narrow<Word>(ids, out.data() + begin); });
}

uint32_t WidenTokens(const std::byte* bytes, TokenWidth width, std::span<int32_t> out) {
  return WithWord(width, [&]<class Word>(Word) { return WidenWords<Word>(bytes, out); });
}

std::string TokenHeader(int64_t tokens, TokenWidth width) {
  FOLIO_CHECK(tokens >= 0 && tokens <= kMaxHeaderTokens, "more tokens than the header can tell of");
  FOLIO_CHECK(width != TokenWidth::k64, "llm.c has no such tokens");
  const bool narrow = width == TokenWidth::k16;
  std::vector<std::byte> words;
  AppendTokenBytes(std::array{narrow ? kGpt2Magic : kLlama3Magic, narrow ? kVersion16 : kVersion32,
                              static_cast<int32_t>(tokens)},
                   TokenWidth::k32, words);
  std::string header(reinterpret_cast<const char*>(words.data()), words.size());
  header.resize(kTokenHeaderBytes);
  return header;
}

std::optional<TokenWidth> ReadTokenHeader(std::span<const std::byte> file,
                                          const std::string& path) {
  std::array<int32_t, kTokenHeaderBytes / 4> words = {};
  const size_t whole = std::min(file.size(), kTokenHeaderBytes) / 4;
  WidenTokens(file.data(), TokenWidth::k32, std::span(words).first(whole));
  const auto [magic, version] = std::pair(words[0], words[1]);
  const bool others = std::any_of(words.begin() + 3, words.end(), [](int32_t w) { return w != 0; });
  if (magic == kEvaluationMagic && version == 1 && !others) {
    throw NotLlmC(path, "it contains questions and answers for llm.c's evaluation");
  }
  if ((magic != kGpt2Magic && magic != kLlama3Magic) || others) return std::nullopt;
  if (file.size() < kTokenHeaderBytes) {
    throw WrongLength(path, fmt::format("the header has {} bytes, the file has {}",
                                        kTokenHeaderBytes, file.size()));
  }
  if (version != kVersion16 && version != kVersion32) {
    throw NotLlmC(path, fmt::format("the header has version {}", version));
  }
  const TokenWidth width = version == kVersion16 ? TokenWidth::k16 : TokenWidth::k32;
  const auto tokens = static_cast<uint32_t>(words[2]);
  const uint64_t held = file.size() - kTokenHeaderBytes;
  if (tokens <= kMaxHeaderTokens && held == static_cast<uint64_t>(width) * tokens) return width;
  throw WrongLength(path, fmt::format("the header announces {} tokens of {} bytes, {} bytes follow",
                                      tokens, static_cast<int>(width), held));
}

void TokenWidthGuess::AddGroup(std::span<const std::byte> group) {
  std::array<int32_t, 4> words = {};
  WidenTokens(group.data(), TokenWidth::k16, std::span(words).first(group.size() / 2));
  const auto word = [&](size_t i) { return static_cast<uint32_t>(words[i]); };
  even_ = std::max({even_, word(0), word(2)});
  odd_ = std::max({odd_, word(1), word(3)});
  second_ = std::max(second_, word(1));
  upper_ = std::max({upper_, word(2), word(3)});
}

void TokenWidthGuess::Add(std::span<const std::byte> file) {
  constexpr size_t kSamples = 8, kSampleBytes = size_t{1} << 13;
  odd_bytes_ |= file.size();
  const bool all = file.size() <= kSamples * kSampleBytes;
  for (size_t place = 0; place < (all ? 1 : kSamples); ++place) {
    const size_t begin = all ? 0 : (file.size() - kSampleBytes) / (kSamples - 1) * place / 8 * 8;
    std::span<const std::byte> bytes = all ? file : file.subspan(begin, kSampleBytes);
    for (; !bytes.empty(); bytes = bytes.subspan(std::min<size_t>(8, bytes.size()))) {
      AddGroup(bytes.first(std::min<size_t>(8, bytes.size())));
    }
  }
}

TokenWidth TokenWidthGuess::width() const {
  if (even_ == 0 && odd_ == 0) return TokenWidth::k16;
  if (odd_bytes_ % 8 == 0 && upper_ == 0 && second_ < kUpperLimit) return TokenWidth::k64;
  const bool narrow_below = even_ < kUpperLimit * kUpperLimit;
  if (odd_bytes_ % 4 == 0 && odd_ < kUpperLimit && (odd_ == 0 || !narrow_below)) {
    return TokenWidth::k32;
  }
  return TokenWidth::k16;
}

TokenFile::TokenFile(const std::string& path, TokenWidth width, int64_t vocab_size)
    : TokenFile(std::vector{path}, path, width, vocab_size) {}

TokenFile::TokenFile(const std::vector<std::string>& paths, std::string name, TokenWidth width,
                     int64_t vocab_size)
    : name_(std::move(name)), width_(width), vocab_size_(vocab_size) {
  if (vocab_size < 0) {
    throw UsageError(fmt::format("{}: invalid vocabulary size {}", name_, vocab_size));
  }
  if (paths.empty()) throw UsageError(fmt::format("{}: no token files given", name_));
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
                       fmt::format("the header gives the type {}", TokenWidthName(*said)),
                       "all files of a data set must have the same type; prepare the data again");
    }
    shard.bytes = shard.bytes.subspan(kTokenHeaderBytes);
  }
  const size_t width = static_cast<size_t>(width_);
  if (shard.bytes.size() % width != 0) {
    throw InputError(fmt::format("{}: not a file of {} tokens", path, TokenWidthName(width_)),
                     fmt::format("{} bytes are not a multiple of {}", shard.bytes.size(), width),
                     "the file is truncated or of another type; prepare the data again");
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
    f(shard->bytes.data() + at * static_cast<int64_t>(width_), run);
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
    shards_[shard].file.Forget(piece);
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
  throw InputError(fmt::format("{}: token {} is outside the vocabulary", name_, At(begin)),
                   fmt::format("at position {}; ids must be below {}", begin, limit),
                   "use the tokenizer that the data was prepared with, or prepare the data again");
}

void TokenFile::Read(int64_t begin, std::span<int32_t> out) const {
  const int64_t count = static_cast<int64_t>(out.size());
  if (begin < 0 || count > tokens_ || begin > tokens_ - count) {
    throw UsageError(
        fmt::format("{}: tokens {} to {} are out of range", name_, begin, begin + count - 1),
        fmt::format("it has {} tokens", tokens_));
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
    if (static_cast<uint32_t>(std::ranges::max(out)) >= limit)
      FailAt(begin, begin + static_cast<int64_t>(out.size()), limit);
  }
}

}  // namespace folio
