#pragma once

#include <string>
#include <vector>

namespace folio {

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
