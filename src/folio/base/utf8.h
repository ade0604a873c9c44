#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace folio {

enum class Utf8Status {
  kValid,
  kInvalid,     // begins no character, whatever follows
  kIncomplete,  // the text ends inside a character that more bytes could complete
};

struct Utf8Char {
  char32_t code = 0xFFFD;  // the replacement character unless valid
  size_t length = 0;       // bytes: of the character, or of the maximal ill-formed subpart
  Utf8Status status = Utf8Status::kInvalid;
};

// The character at byte `at`. Well-formed sequences and maximal subparts are those of the Unicode
// Standard, tables 3-7 and 3-8: no surrogates, no overlong forms, nothing above U+10FFFF.
// REQUIRES: at < text.size().
Utf8Char DecodeUtf8(std::string_view text, size_t at = 0);

// True for every byte but 0x80 to 0xBF, which continue a character.
inline bool BeginsCharacter(char byte) {
  return static_cast<signed char>(byte) >= -64;
}

// The number of bytes that begin a character: the number of characters if the text is UTF-8.
int64_t CountCharacters(std::string_view text);

// Appends the bytes of `code`. REQUIRES: code is a Unicode scalar value.
void AppendUtf8(char32_t code, std::string& out);

// Byte offset of the first thing that is not a complete character, or npos if all of it is valid.
size_t FindInvalidUtf8(std::string_view text);

// Length of `text` without the incomplete character at its end, if any (0 to 3 bytes less). Says
// nothing about the validity of the rest.
size_t CompleteUtf8Prefix(std::string_view text);

// The text with each maximal ill-formed subpart replaced by U+FFFD.
std::string ReplaceInvalidUtf8(std::string_view text);

// Names a character in messages: `'é' (U+00E9)`, `U+000A` where it does not print by itself.
std::string QuoteChar(char32_t code);

// A position in a text that comes in pieces which end between characters.
struct TextPosition {
  int64_t line = 1;
  int64_t column = 1;  // in characters
  int64_t byte = 0;

  void Advance(std::string_view piece);
};

// Says which characters stay unchanged when text is made visible.
struct VisibleRule {
  bool lines = true;    // line breaks and tabs stay; false: the text must fit on one line
  bool styles = false;  // Colours and weights as folio itself writes them stay, but no other escape
                        // sequence: the text may contain text of users.
};

// Returns `text` made safe for a terminal: control characters of all kinds, characters that change
// the direction of text, and bytes that are not UTF-8 become readable escapes ("\u001b", "\u202e",
// "\xff"). Strings of JSON keep their meaning. Text may be passed in pieces of whole characters.
std::string Visible(std::string_view text, const VisibleRule& rule = {});

}  // namespace folio
