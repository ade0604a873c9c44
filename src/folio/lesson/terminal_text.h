#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace folio {

// Text for terminals that know columns, and for those that know ASCII only.

// `text` in ASCII: "√d" is "sqrt(d)", "xᵀ" is "x^T", what has no other spelling "?".
std::string ToAscii(std::string_view text);

// The columns that UTF-8 text takes in a terminal: none for marks, two for characters of East Asia
// and for emoji.
int64_t TextColumns(std::string_view text);

// `text` on one line of printable characters, at most `width` columns wide, cut with an ellipsis.
// In ASCII if not utf8.
std::string TerminalLabel(std::string_view text, int64_t width, bool utf8);

// Spaces before (or after) `text` up to `width` columns.
std::string PadLeft(std::string_view text, int64_t width);
std::string PadRight(std::string_view text, int64_t width);

// `text` in lines of at most `width` columns, broken at spaces.
std::vector<std::string> WrapLines(std::string_view text, int64_t width);

}  // namespace folio
