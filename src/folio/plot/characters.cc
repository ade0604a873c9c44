#include "folio/plot/characters.h"

namespace folio {

Character FirstCharacter(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, lead, true};
  const size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || bytes > text.size()) return {};
  uint32_t code = lead & (0x7Fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3F);
  }
  static constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  if (code < kSmallest[bytes] || code > 0x10FFFF || surrogate) return {};
  return {bytes, code, true};
}

bool Printable(const Character& character) {
  const uint32_t code = character.code;
  if (!character.valid || code == 0xFFFE || code == 0xFFFF) return false;
  if (code < 0x20) return code == '\t' || code == '\n' || code == '\r';
  return code < 0x7F || code >= 0xA0;
}

double CharacterWidth(const Character& character) {
  if (!Printable(character)) return 1.05;  // drawn as U+FFFD
  if (character.code >= 0x1F000) return 1.3;
  if (character.code >= 0x1100) return 1.0;  // ideographs and symbols
  if (character.code >= 0x400) return 0.95;  // scripts that have wide letters
  const char ascii = character.code < 0x80 ? static_cast<char>(character.code) : 'n';
  if (std::string_view("mwMW@%").find(ascii) != std::string_view::npos) return 1.0;
  if (std::string_view("#+<=>^~&").find(ascii) != std::string_view::npos) return 0.84;
  if (std::string_view(" .,:;'!|()[]ijlftrI-").find(ascii) != std::string_view::npos) return 0.42;
  return ascii >= 'A' && ascii <= 'Z' ? 0.78 : 0.64;
}

}  // namespace folio
