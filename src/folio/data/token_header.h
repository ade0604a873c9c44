#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace folio {

// How a token file begins. kFolio: with the first token. kLlmC: with the header of llm.c, 256
// little-endian int32, which are 20240520, 1, the number of tokens and zeros; its tokens are
// uint16.
enum class TokenFormat { kFolio, kLlmC };

std::string_view TokenFormatName(TokenFormat format);  // "folio", "llmc"
std::optional<TokenFormat> FindTokenFormat(std::string_view name);

inline constexpr size_t kTokenHeaderBytes = 1024;
// The most tokens that the header can tell of.
inline constexpr int64_t kMaxHeaderTokens = INT32_MAX;

// REQUIRES: 0 <= tokens <= kMaxHeaderTokens.
std::string TokenHeader(int64_t tokens);

// The number of tokens behind the header that `file` begins with, or nothing if it begins with
// none. Throws a kInput Error naming `path` if the header is right and the length is not.
std::optional<int64_t> ReadTokenHeader(std::span<const std::byte> file, const std::string& path);

}  // namespace folio
