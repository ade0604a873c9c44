#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "folio/term/console.h"

namespace folio {

// Text for terminals with a limited width, and for those with ASCII alone.

// `text` in ASCII: "√d" is "sqrt(d)", "xᵀ" is "x^T", other characters "?".
std::string ToAscii(std::string_view text);

// Columns of UTF-8 `text` on a terminal: two for wide East Asian characters and emoji, none for
// marks and colour escapes.
int64_t DisplayWidth(std::string_view text);

// `text` on one line of printable characters, at most `width` columns wide, cut with an ellipsis.
// In ASCII if not utf8.
std::string TerminalLabel(std::string_view text, int64_t width, bool utf8);

// Spaces before (or after) `text` up to `width` columns.
std::string PadLeft(std::string_view text, int64_t width);
std::string PadRight(std::string_view text, int64_t width);

// `text` in lines of at most `width` columns, broken at spaces.
std::vector<std::string> WrapLines(std::string_view text, int64_t width);

// Returns true if output must be ASCII: a terminal that does not show UTF-8.
inline bool AsciiOnly(const Terminal& terminal) {
  return terminal.is_terminal && !terminal.utf8;
}

// `text` on one line in the characters of the terminal: ASCII if it has no others.
std::string Spelled(const Terminal& terminal, std::string_view text);

// `text`, without escapes, in exactly `width` columns: cut with an ellipsis, or filled with spaces
// behind it.
std::string FitColumns(const Terminal& terminal, std::string_view text, int64_t width);

// `text` in 256 colours by the square root of `value` relative to `largest`, as in figures: blue
// for positive, orange for negative, none near 0; small values colour the letters, larger ones the
// background. Looks alike on dark and light terminals.
std::string HeatColoured(std::string_view text, double value, double largest);

// `text` on a background for `heat`, 0 to 1, with none for the smallest. Unchanged if the stream
// has no colour.
std::string Heated(const Terminal& terminal, double heat, std::string_view text);

// `heat` as one character, denser for more, for streams without colour.
std::string_view ShadeSign(const Terminal& terminal, double heat);

// The contents of a table for terminals and pages: see RenderTable.
struct TextTable {
  std::vector<std::string> columns = {};
  std::vector<std::vector<std::string>> rows = {};
};

// A table for people. Columns are as wide as their widest cell and two spaces apart; names of
// right-aligned columns begin with ">". Every row has a cell for each column; cells may be
// coloured; other characters that could control a terminal become escapes, line breaks too.
std::string RenderTable(const std::vector<std::string>& columns,
                        const std::vector<std::vector<std::string>>& rows);
inline std::string RenderTable(const TextTable& table) {
  return RenderTable(table.columns, table.rows);
}

// The same if it fits `width` columns, else transposed: a row for each column, with as many of the
// rows side by side as fit, named by their first cell.
std::string RenderTableWithin(const TextTable& table, int width);

}  // namespace folio
