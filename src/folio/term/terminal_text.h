#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "folio/term/console.h"

namespace folio {

// Text for terminals that know columns, and for those that know ASCII only.

// `text` in ASCII: "√d" is "sqrt(d)", "xᵀ" is "x^T", what has no other spelling "?".
std::string ToAscii(std::string_view text);

// Columns that UTF-8 `text` takes on a terminal: wide East Asian characters and emoji two, marks
// and the escapes of colours none.
int64_t DisplayWidth(std::string_view text);

// `text` on one line of printable characters, at most `width` columns wide, cut with an ellipsis.
// In ASCII if not utf8.
std::string TerminalLabel(std::string_view text, int64_t width, bool utf8);

// Spaces before (or after) `text` up to `width` columns.
std::string PadLeft(std::string_view text, int64_t width);
std::string PadRight(std::string_view text, int64_t width);

// `text` in lines of at most `width` columns, broken at spaces.
std::vector<std::string> WrapLines(std::string_view text, int64_t width);

// Returns whether only ASCII should be written: a person looks, at a terminal that shows no UTF-8.
inline bool AsciiOnly(const Terminal& terminal) {
  return terminal.is_terminal && !terminal.utf8;
}

// `text` on one line as the terminal can show it: in ASCII if it knows no more.
std::string Spelled(const Terminal& terminal, std::string_view text);

// `text`, without escapes, in exactly `width` columns: cut with an ellipsis, or filled with spaces
// behind it.
std::string FitColumns(const Terminal& terminal, std::string_view text, int64_t width);

// `text` in 256 colours that say how large `value` is beside `largest`, by its square root as in
// figures: blue for positive, orange for negative, none near 0; small values colour the letters,
// larger ones the ground. Reads alike on dark and light terminals.
std::string HeatColoured(std::string_view text, double value, double largest);

// `text` on a colour for `heat`, 0 to 1, the smallest of which have none. As it is where the stream
// has no colour.
std::string Heated(const Terminal& terminal, double heat, std::string_view text);

// `heat` as one character that is the fuller the more it is, for where there is no colour.
std::string_view ShadeSign(const Terminal& terminal, double heat);

// The contents of a table, here and on pages: see RenderTable.
struct TextTable {
  std::vector<std::string> columns = {};
  std::vector<std::vector<std::string>> rows = {};
};

// A table for people. Columns are as wide as their widest cell and two spaces apart; the names of
// those that are aligned to the right begin with ">". Every row has a cell for each column; cells
// may be coloured; what else could command a terminal is shown as escapes, line breaks too.
std::string RenderTable(const std::vector<std::string>& columns,
                        const std::vector<std::vector<std::string>>& rows);
inline std::string RenderTable(const TextTable& table) {
  return RenderTable(table.columns, table.rows);
}

// The same where `width` columns hold it, else turned: a row for each column, with as many of the
// rows beside each other as fit, named by their first cell.
std::string RenderTableWithin(const TextTable& table, int width);

}  // namespace folio
