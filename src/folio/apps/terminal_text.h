#pragma once

#include <string>
#include <string_view>

#include "folio/apps/console.h"

namespace folio {

// Whether only ASCII should be written: a person looks, at a terminal that shows no UTF-8.
inline bool AsciiOnly(const Terminal& terminal) {
  return terminal.is_terminal && !terminal.utf8;
}

// Columns that UTF-8 `text` takes on a terminal: wide East Asian characters and emoji two, marks
// and the escapes of colours none.
int DisplayWidth(std::string_view text);

// `text`, without escapes, in exactly `width` columns: cut with an ellipsis, or filled with spaces
// behind it.
std::string FitColumns(const Terminal& terminal, std::string_view text, int width);

// `text` on a colour for `heat`, 0 to 1, the smallest of which have none. As it is where the stream
// has no colour.
std::string Heated(const Terminal& terminal, double heat, std::string_view text);

// `heat` as one character that is the fuller the more it is, for where there is no colour.
std::string_view ShadeSign(const Terminal& terminal, double heat);

}  // namespace folio
