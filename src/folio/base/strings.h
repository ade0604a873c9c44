#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace folio {

// Fewest insertions, deletions, substitutions and swaps of neighbours that turn a into b
// (Damerau-Levenshtein, optimal string alignment). Bytes, not characters.
int EditDistance(std::string_view a, std::string_view b);

// The candidate closest to `word` within 2 edits (and fewer than the word's length), or "" if none.
std::string Nearest(std::string_view word, std::span<const std::string> candidates);

std::vector<std::string> Split(std::string_view text, char separator);
std::string Join(std::span<const std::string> parts, std::string_view separator);

// Quotes a text for a shell where needed.
std::string ShellWord(std::string_view text);

// The text with A to Z in lower case and all other bytes as they are.
std::string LowerAscii(std::string_view text);

// The value of a hexadecimal digit in either case; -1 for any other character.
int HexDigit(char c);

std::string HumanBytes(double bytes);  // "1.50 GB", powers of 1000
std::string HumanBytes(std::integral auto bytes) {
  return HumanBytes(static_cast<double>(bytes));
}
std::string HumanCount(double count);      // "124.4M"
std::string HumanSeconds(double seconds);  // "58m04s", "1d05h", "103 years"
std::string WithCommas(int64_t value);     // "124,439,808"

// Parses "90s", "10m", "1h30m" or "2d" as seconds; a bare number is seconds. Throws a kUsage Error
// that names `flag` for anything else, and for less than a second.
double ParseSeconds(std::string_view text, std::string_view flag);

}  // namespace folio
