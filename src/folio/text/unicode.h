#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace folio {

// The classes of characters of Unicode 16.0 that the split patterns of tokenizers distinguish.
enum class CharClass : uint8_t {
  kOther,       // none of the others: punctuation, symbols, controls, unassigned, private use
  kSpace,       // White_Space: exactly 25 code points
  kNumber,      // Nd, Nl, No
  kMark,        // Mn, Mc, Me
  kUpper,       // Lu
  kTitle,       // Lt
  kLower,       // Ll
  kModifier,    // Lm
  kOtherLetter  // Lo
};

// True for Lu, Lt, Ll, Lm and Lo.
constexpr bool IsLetter(CharClass c) {
  return c >= CharClass::kUpper;
}

// The class of any code; kOther above U+10FFFF.
CharClass ClassOf(char32_t code);

// Returns true if a character of White_Space begins at byte `at`. REQUIRES: at < text.size().
bool IsSpaceAt(std::string_view text, size_t at);
// The begin of the character that ends at byte `at`. REQUIRES: at > 0.
size_t CharacterBefore(std::string_view text, size_t at);

// The classes as a table for inner loops: the class of a code below 0x110000 is pages[page_of[code
// >> 8]][code & 0xFF]. Valid as long as the program runs.
struct CharClassTable {
  const uint8_t* page_of;  // 0x1100 entries
  const CharClass (*pages)[256];
};
const CharClassTable& CharClasses();

// The codes where the class of characters changes, in ascending order from code 0: each number is
// `first code << 4 | CharClass`, and holds up to the code before the next.
std::span<const uint32_t> CharClassRanges();

}  // namespace folio
