#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "folio/text/unicode.h"

// Characters and runs of them, for the scanners of the split patterns. All pointers of a call lie
// in one text; `end` is its end, and nothing at or behind it is read.
namespace folio::scan {

// A set of CharClass, one bit each.
using ClassSet = uint32_t;

constexpr ClassSet SetOf(CharClass c) {
  return ClassSet{1} << static_cast<int>(c);
}

inline constexpr ClassSet kSpaces = SetOf(CharClass::kSpace);
inline constexpr ClassSet kNumbers = SetOf(CharClass::kNumber);
inline constexpr ClassSet kMarks = SetOf(CharClass::kMark);
inline constexpr ClassSet kOthers = SetOf(CharClass::kOther) | kMarks;  // [^\s\p{L}\p{N}]
inline constexpr ClassSet kCaseless =
    SetOf(CharClass::kModifier) | SetOf(CharClass::kOtherLetter) | kMarks;
inline constexpr ClassSet kUppers =
    SetOf(CharClass::kUpper) | SetOf(CharClass::kTitle) | kCaseless;       // o200k's U
inline constexpr ClassSet kLowers = SetOf(CharClass::kLower) | kCaseless;  // o200k's W
inline constexpr ClassSet kLetters = (kUppers | kLowers) & ~kMarks;
inline constexpr ClassSet kMultiByte = ClassSet{1} << 15;  // in kByteSets: not ASCII

constexpr ClassSet SetOfByte(int byte) {
  if (byte >= 0x80) return kMultiByte;
  if ((byte >= 9 && byte <= 13) || byte == ' ') return kSpaces;
  if (byte >= '0' && byte <= '9') return kNumbers;
  if (byte >= 'A' && byte <= 'Z') return SetOf(CharClass::kUpper);
  if (byte >= 'a' && byte <= 'z') return SetOf(CharClass::kLower);
  return SetOf(CharClass::kOther);
}

inline constexpr std::array<uint16_t, 256> kByteSets = [] {
  std::array<uint16_t, 256> sets = {};
  for (int byte = 0; byte < 256; ++byte) sets[byte] = static_cast<uint16_t>(SetOfByte(byte));
  return sets;
}();

struct Char {
  ClassSet set;   // of its class alone
  size_t length;  // in bytes
};

inline constexpr Char kIllFormed = {SetOf(CharClass::kOther), 1};

inline Char LookUp(uint32_t code, size_t length, const CharClassTable& table) {
  return {SetOf(table.pages[table.page_of[code >> 8]][code & 0xFF]), length};
}

inline bool Continues(unsigned char byte) {
  return (byte & 0xC0) == 0x80;
}

// The character at `at` < `end`, whose first byte is not ASCII; kIllFormed where none is.
inline Char ReadMultiByte(const unsigned char* at, const unsigned char* end,
                          const CharClassTable& table) {
  const uint32_t lead = at[0];
  const ptrdiff_t left = end - at;
  if (lead < 0xE0) {
    if (lead < 0xC2 || left < 2 || !Continues(at[1])) return kIllFormed;
    return LookUp((lead & 0x1F) << 6 | (at[1] & 0x3Fu), 2, table);
  }
  if (lead < 0xF0) {
    if (left < 3 || !Continues(at[1]) || !Continues(at[2])) return kIllFormed;
    const uint32_t code = (lead & 0xF) << 12 | (at[1] & 0x3Fu) << 6 | (at[2] & 0x3Fu);
    if (code < 0x800 || (code >= 0xD800 && code < 0xE000)) return kIllFormed;
    return LookUp(code, 3, table);
  }
  if (lead > 0xF4 || left < 4 || !Continues(at[1]) || !Continues(at[2]) || !Continues(at[3])) {
    return kIllFormed;
  }
  const uint32_t code =
      (lead & 0x7) << 18 | (at[1] & 0x3Fu) << 12 | (at[2] & 0x3Fu) << 6 | (at[3] & 0x3Fu);
  if (code < 0x10000 || code > 0x10FFFF) return kIllFormed;
  return LookUp(code, 4, table);
}

// The character at `at` < `end`.
inline Char Read(const unsigned char* at, const unsigned char* end) {
  const ClassSet set = kByteSets[*at];
  if (set != kMultiByte) return {set, 1};
  return ReadMultiByte(at, end, CharClasses());
}

// Returns how many of the eight bytes at `at` from the first on (the lowest of a little-endian
// word) are ASCII letters (only lower case with `kLowerOnly`). Bytes of other characters are not.
template <bool kLowerOnly>
inline size_t CountAsciiLetters(const unsigned char* at) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  uint64_t bytes;
  std::memcpy(&bytes, at, 8);
  const uint64_t low = (kLowerOnly ? bytes : bytes | 0x20 * kOnes) & 0x7F * kOnes;
  const uint64_t from_a = low + (0x80 - 'a') * kOnes;
  const uint64_t past_z = low + (0x80 - 'z' - 1) * kOnes;
  const uint64_t no_letter = ~(from_a & ~past_z & ~bytes) & 0x80 * kOnes;
  return static_cast<size_t>(std::countr_zero(no_letter)) / 8;  // 8 where no_letter is 0
}

// The end of the run of characters of `kSet` from `at` <= `end` on.
template <ClassSet kSet>
inline const unsigned char* SkipRun(const unsigned char* at, const unsigned char* end) {
  constexpr bool kHasLower = (kSet & SetOf(CharClass::kLower)) != 0;
  constexpr bool kHasUpper = (kSet & SetOf(CharClass::kUpper)) != 0;
  if constexpr (kHasLower && std::endian::native == std::endian::little) {
    while (end - at >= 8) {
      const size_t letters = CountAsciiLetters<!kHasUpper>(at);
      at += letters;
      if (letters < 8) break;
    }
  }
  while (at < end) {
    while ((kByteSets[*at] & kSet) != 0) {
      if (++at == end) return at;
    }
    if (*at < 0x80) return at;
    const CharClassTable& table = CharClasses();
    do {
      const Char c = ReadMultiByte(at, end, table);
      if ((c.set & kSet) == 0) return at;
      at += c.length;
    } while (at < end && *at >= 0x80);
  }
  return at;
}

}  // namespace folio::scan
