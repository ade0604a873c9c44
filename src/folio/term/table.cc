#include "folio/term/table.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/utf8.h"
#include "folio/term/terminal_text.h"

namespace folio {
namespace {

int64_t FirstLineWidth(const std::string& text) {
  return DisplayWidth(std::string_view(text).substr(0, text.find('\n')));
}

// Rows [begin, end) of a table as columns. Their names, in the first column, are cut to what leaves
// room for values.
std::string Turned(const TextTable& table, size_t begin, size_t end, int width) {
  const int64_t longest = std::max(12, width / 2);
  std::vector<std::string> columns = {table.columns[0]};
  for (size_t r = begin; r < end; ++r) {
    columns.push_back(">" + TerminalLabel(table.rows[r][0], longest, /*utf8=*/true));
  }
  std::vector<std::vector<std::string>> rows;
  for (size_t c = 1; c < table.columns.size(); ++c) {
    const std::string& name = table.columns[c];
    rows.push_back({name.substr(name.starts_with('>') ? 1 : 0)});
    for (size_t r = begin; r < end; ++r) rows.back().push_back(table.rows[r][c]);
  }
  return RenderTable(columns, rows);
}

}  // namespace

std::string RenderTable(const std::vector<std::string>& columns,
                        const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::string> titles;
  std::vector<bool> right;
  std::vector<int64_t> widths;
  std::vector<std::vector<std::string>> shown;
  for (const std::vector<std::string>& row : rows) {
    FOLIO_CHECK(row.size() == columns.size(), "a row has a cell for each column");
    std::vector<std::string>& cells = shown.emplace_back();
    for (const std::string& cell : row) {
      cells.push_back(Visible(cell, {.lines = false, .styles = true}));
    }
  }
  for (const std::string& column : columns) {
    right.push_back(column.starts_with('>'));
    titles.push_back(Visible(column.substr(right.back() ? 1 : 0), {.lines = false}));
    widths.push_back(DisplayWidth(titles.back()));
  }
  for (const std::vector<std::string>& row : shown) {
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
  for (const std::vector<std::string>& row : shown) add(row);
  return text;
}

std::string RenderTableWithin(const TextTable& table, int width) {
  std::string text = RenderTable(table);
  if (FirstLineWidth(text) <= width) return text;
  std::string blocks;
  for (size_t begin = 0; begin < table.rows.size();) {
    size_t end = begin + 1;
    std::string block = Turned(table, begin, end, width);
    for (; end < table.rows.size(); ++end) {
      std::string wider = Turned(table, begin, end + 1, width);
      if (FirstLineWidth(wider) > width) break;
      block = std::move(wider);
    }
    blocks += (begin > 0 ? "\n" : "") + block;
    begin = end;
  }
  return blocks;
}

}  // namespace folio
