#include "folio/data/token_header.h"

#include <fmt/format.h>

#include <algorithm>

#include "folio/base/check.h"
#include "folio/base/error.h"

namespace folio {
namespace {

constexpr uint32_t kMagic = 20240520;
constexpr uint32_t kVersion = 1;

void PutWord(uint32_t value, std::string& out) {
  for (int b = 0; b < 4; ++b) out.push_back(static_cast<char>(value >> (8 * b) & 255u));
}

uint32_t WordAt(std::span<const std::byte> bytes, size_t index) {
  uint32_t value = 0;
  for (size_t b = 0; b < 4; ++b) {
    value |= std::to_integer<uint32_t>(bytes[4 * index + b]) << (8 * b);
  }
  return value;
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

std::string TokenHeader(int64_t tokens) {
  FOLIO_CHECK(tokens >= 0 && tokens <= kMaxHeaderTokens, "more tokens than the header can tell of");
  std::string header;
  for (const uint32_t word : {kMagic, kVersion, static_cast<uint32_t>(tokens)}) {
    PutWord(word, header);
  }
  header.resize(kTokenHeaderBytes, '\0');
  return header;
}

std::optional<int64_t> ReadTokenHeader(std::span<const std::byte> file, const std::string& path) {
  constexpr size_t kCountEnd = 12;
  if (file.size() < kTokenHeaderBytes || WordAt(file, 0) != kMagic || WordAt(file, 1) != kVersion) {
    return std::nullopt;
  }
  const std::span<const std::byte> rest = file.subspan(kCountEnd, kTokenHeaderBytes - kCountEnd);
  if (std::ranges::any_of(rest, [](std::byte b) { return b != std::byte{0}; })) {
    return std::nullopt;
  }
  const uint32_t tokens = WordAt(file, 2);
  const uint64_t held = file.size() - kTokenHeaderBytes;
  if (tokens > kMaxHeaderTokens || held != uint64_t{2} * tokens) {
    throw InputError(
        fmt::format("{}: wrong length", path),
        fmt::format("its header tells of {} tokens of 2 bytes, {} bytes follow it", tokens, held),
        "the file was cut short; make it again");
  }
  return tokens;
}

}  // namespace folio
