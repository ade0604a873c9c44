#include "folio/base/base64.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace folio {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<int8_t, 256> kValues = [] {
  std::array<int8_t, 256> values{};
  values.fill(-1);
  for (size_t i = 0; i < kDigits.size(); ++i) {
    values[static_cast<uint8_t>(kDigits[i])] = static_cast<int8_t>(i);
  }
  return values;
}();

}  // namespace

std::string Base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) {
      group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    }
    const size_t digits = std::min<size_t>(bytes.size() - i, 3) + 1;
    for (size_t j = 0; j < 4; ++j) {
      text += j < digits ? kDigits[group >> (18 - 6 * j) & 63] : '=';
    }
  }
  return text;
}

bool AppendBase64(std::string_view text, std::string& bytes) {
  if (text.empty() || text.size() % 4 != 0) return false;
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  const size_t digits = text.size() - padding;
  uint32_t bits = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const int digit = i < digits ? kValues[static_cast<uint8_t>(text[i])] : 0;
    if (digit < 0) return false;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    if (i % 4 != 3) continue;
    for (int byte = 0; byte < 3; ++byte) bytes += static_cast<char>(bits >> (16 - 8 * byte) & 0xFF);
    bits = 0;
  }
  // The bits that the padding stands for must be zero.
  for (size_t i = 0; i < padding; ++i) {
    if (bytes.back() != '\0') return false;
    bytes.pop_back();
  }
  return true;
}

}  // namespace folio
