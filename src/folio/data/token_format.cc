#include "folio/data/token_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"

namespace folio {
namespace {

// The first numbers of llm.c's files of tokens, and of its files of questions.
constexpr int32_t kGpt2Magic = 20240520, kLlama3Magic = 20240801, kEvaluationMagic = 20240522;
constexpr int32_t kVersion16 = 1, kVersion32 = 7;

// Tokens of plausible vocabularies are below 2^20: a word of 16 bits above another is below this.
constexpr uint32_t kUpperLimit = 16;

template <class Word>
uint32_t WidenWords(const std::byte* bytes, std::span<int32_t> out) {
  using Sum = std::conditional_t<sizeof(Word) == 8, uint64_t, uint32_t>;
  uint32_t largest = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    Sum value = 0;
    for (size_t b = 0; b < sizeof(Word); ++b) {
      value |= std::to_integer<Sum>(bytes[i * sizeof(Word) + b]) << (8 * b);
    }
    largest = std::max(largest, static_cast<uint32_t>(std::min<uint64_t>(value, UINT32_MAX)));
    out[i] = static_cast<int32_t>(value);
  }
  return largest;
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

Error NotLlmC(const std::string& path, std::string cause) {
  return InputError(fmt::format("{}: not a file of llm.c's tokens that folio reads", path),
                    std::move(cause),
                    "versions 1 (uint16) and 7 (uint32) are read; make the file again with one");
}

void CheckLength(const std::string& path, uint32_t tokens, TokenWidth width, uint64_t held) {
  if (tokens <= kMaxHeaderTokens && held == static_cast<uint64_t>(width) * tokens) return;
  throw InputError(fmt::format("{}: wrong length", path),
                   fmt::format("its header tells of {} tokens of {} bytes, {} bytes follow it",
                               tokens, static_cast<int>(width), held),
                   "the file was cut short; make it again");
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
  switch (width) {
    case TokenWidth::k16:
      return "uint16";
    case TokenWidth::k32:
      return "uint32";
    case TokenWidth::k64:
      return "int64";
  }
  return "";
}

void AppendTokenBytes(std::span<const int32_t> ids, TokenWidth width, std::vector<std::byte>& out) {
  uint32_t all = 0;
  for (const int32_t id : ids) all |= static_cast<uint32_t>(id);
  if (all > (width == TokenWidth::k16 ? 0xFFFFu : 0x7FFFFFFFu)) {
    throw UsageError(fmt::format("an id does not fit {}", TokenWidthName(width)),
                     "ids are 0 or above", "take a wider type, or the tokenizer of these ids");
  }
  const size_t begin = out.size();
  out.resize(begin + ids.size() * static_cast<size_t>(width));
  std::byte* to = out.data() + begin;
  switch (width) {
    case TokenWidth::k16:
      Narrow<uint16_t>(ids, to);
      break;
    case TokenWidth::k32:
      Narrow<uint32_t>(ids, to);
      break;
    case TokenWidth::k64:
      Narrow<uint64_t>(ids, to);
      break;
  }
}

uint32_t WidenTokens(const std::byte* bytes, TokenWidth width, std::span<int32_t> out) {
  switch (width) {
    case TokenWidth::k16:
      return WidenWords<uint16_t>(bytes, out);
    case TokenWidth::k32:
      return WidenWords<uint32_t>(bytes, out);
    case TokenWidth::k64:
      return WidenWords<uint64_t>(bytes, out);
  }
  return 0;
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
    throw NotLlmC(path, "it holds questions with their answers, for llm.c's evaluation");
  }
  if ((magic != kGpt2Magic && magic != kLlama3Magic) || others) return std::nullopt;
  if (file.size() < kTokenHeaderBytes) {
    throw InputError(
        fmt::format("{}: wrong length", path),
        fmt::format("the header has {} bytes, the file {}", kTokenHeaderBytes, file.size()),
        "the file was cut short; make it again");
  }
  if (version != kVersion16 && version != kVersion32) {
    throw NotLlmC(path, fmt::format("its header has the version {}", version));
  }
  const TokenWidth width = version == kVersion16 ? TokenWidth::k16 : TokenWidth::k32;
  CheckLength(path, static_cast<uint32_t>(words[2]), width, file.size() - kTokenHeaderBytes);
  return width;
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

}  // namespace folio
