#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace folio {

// How a token file begins. kFolio: with the first token. kLlmC: with the header of llm.c, 256
// little-endian int32, of which the first three are a magic number, a version and the number of
// tokens, and the others zero. Of GPT-2's tokens (20240520, version 1) each is a uint16, of Llama
// 3's (20240801, version 7) a uint32.
enum class TokenFormat { kFolio, kLlmC };

std::string_view TokenFormatName(TokenFormat format);  // "folio", "llmc"
std::optional<TokenFormat> FindTokenFormat(std::string_view name);

// Bytes of one token in a file: little-endian uint16, uint32 or int64. folio writes the first two.
enum class TokenWidth { k16 = 2, k32 = 4, k64 = 8 };

// The narrowest width that holds ids 0 .. vocab_size - 1.
TokenWidth WidthForVocab(int64_t vocab_size);
std::string_view TokenWidthName(TokenWidth width);  // "uint16", "uint32", "int64"

// Appends the ids as a file holds them. An id below 0 or that does not fit is a kUsage Error.
void AppendTokenBytes(std::span<const int32_t> ids, TokenWidth width, std::vector<std::byte>& out);

// Widens little-endian tokens into `out` and returns the largest; what no int32 holds counts as
// UINT32_MAX. REQUIRES: `bytes` has as many tokens.
uint32_t WidenTokens(const std::byte* bytes, TokenWidth width, std::span<int32_t> out);

inline constexpr size_t kTokenHeaderBytes = 1024;
// The most tokens that the header can tell of.
inline constexpr int64_t kMaxHeaderTokens = INT32_MAX;

// The header of llm.c for tokens of this width. REQUIRES: 0 <= tokens <= kMaxHeaderTokens and a
// width that llm.c has.
std::string TokenHeader(int64_t tokens, TokenWidth width);

// The width of the tokens behind llm.c's header, or nothing where `file` does not begin with one.
// Throws a kInput Error naming `path` for a version that is not known, for llm.c's files of other
// kinds, and where the length is not what the header says.
std::optional<TokenWidth> ReadTokenHeader(std::span<const std::byte> file, const std::string& path);

// The guess, by its bytes, of what a file without a header holds. Files of one data set have one
// width: all must be added.
class TokenWidthGuess {
 public:
  // Looks at some places of `file`.
  void Add(std::span<const std::byte> file);

  // int64 where of every 8 bytes the upper 4, and of the lower 4 the upper 12 bits, are zero;
  // else uint32 where that is so of every 4 bytes and the lower 2 are not as small themselves, as
  // they are in pairs of characters' ids; else uint16. All zeros are uint16, and a file whose
  // length does not fit a width does not have it.
  TokenWidth width() const;

 private:
  void AddGroup(std::span<const std::byte> group);

  uint64_t odd_bytes_ = 0;           // lengths, or-ed: their low bits say which widths fit
  uint32_t even_ = 0, odd_ = 0;      // the largest 16-bit word at even places, at odd ones
  uint32_t second_ = 0, upper_ = 0;  // of every four: the largest second one, of the last two
};

}  // namespace folio
