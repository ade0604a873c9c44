#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace folio {

// One character of a text that may be anything.
struct Character {
  size_t bytes = 1;
  uint32_t code = 0;
  bool valid = false;  // one whole character of UTF-8
};

// The character at the front of `text`; one byte where that is not UTF-8. REQUIRES: not empty.
Character FirstCharacter(std::string_view text);

// Neither a control character, but for tab and line ends, nor one that XML forbids.
bool Printable(const Character& character);

// In units of the font size, as in the wider ones of the system fonts.
double CharacterWidth(const Character& character);

}  // namespace folio
