#include "folio/base/visible_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace folio {

Utf8Char FirstCharacter(std::string_view text) {
  const Utf8Char c = DecodeUtf8(text);
  return c.status == Utf8Status::kValid ? c : Utf8Char{.length = 1};
}

bool Printable(const Utf8Char& character) {
  const char32_t code = character.code;
  if (character.status != Utf8Status::kValid || code == 0xFFFE || code == 0xFFFF) return false;
  if (code < 0x20) return code == '\t' || code == '\n' || code == '\r';
  return code < 0x7F || code >= 0xA0;
}

std::string VisibleToken(std::string_view bytes) {
  const size_t first = std::min(bytes.find_first_not_of(' '), bytes.size());
  const size_t last = bytes.find_last_not_of(' ');
  std::string text;
  for (size_t at = 0; at < bytes.size();) {
    const Utf8Char character = FirstCharacter(bytes.substr(at));
    const auto byte = static_cast<unsigned char>(bytes[at]);
    if (byte == ' ' && (at < first || at > last)) {
      text += "\xC2\xB7";
    } else if (byte == '\n') {
      text += "\xE2\x86\xB5";
    } else if (byte == '\t' || byte == '\r' || !Printable(character)) {
      for (size_t i = 0; i < character.length; ++i) {
        text += fmt::format("<{:02X}>", static_cast<unsigned char>(bytes[at + i]));
      }
    } else {
      text += bytes.substr(at, character.length);
    }
    at += character.length;
  }
  return text;
}

}  // namespace folio
