#include "folio/term/table.h"

#include <algorithm>

#include "folio/base/check.h"
#include "folio/term/terminal_text.h"

namespace folio {

std::string RenderTable(const std::vector<std::string>& columns,
                        const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::string> titles;
  std::vector<bool> right;
  std::vector<int64_t> widths;
  for (const std::string& column : columns) {
    right.push_back(column.starts_with('>'));
    titles.push_back(column.substr(right.back() ? 1 : 0));
    widths.push_back(DisplayWidth(titles.back()));
  }
  for (const std::vector<std::string>& row : rows) {
    FOLIO_CHECK(row.size() == columns.size(), "a row has a cell for each column");
    for (size_t c = 0; c < row.size(); ++c) {
      widths[c] = std::max(widths[c], DisplayWidth(row[c]));
    }
  }
  std::string text;
  const auto add = [&](const std::vector<std::string>& row) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      if (c > 0) line += "  ";
      line += right[c] ? PadLeft(row[c], widths[c]) : PadRight(row[c], widths[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add(titles);
  for (const std::vector<std::string>& row : rows) add(row);
  return text;
}

}  // namespace folio
