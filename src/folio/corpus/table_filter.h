#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace folio {

// Returns what stands between the fields of a table whose first bytes these are: the first of a
// comma, a semicolon, a tab and | that its header has outside of quotes; a comma where it has none.
char FindDelimiter(std::string_view head);

// A table of text (RFC 4180) as JSON lines: each row becomes an object whose members are called as
// the header says. A field may be quoted, and may have delimiters, line breaks and doubled quotes
// then. Rows end in \n, \r\n or \r; blank ones are left out. No more than the header is held.
// Throws a kInput Error that names the row for fields that are more or fewer than the header's, and
// for quotes that do not end.
class TableFilter {
 public:
  TableFilter(char delimiter, std::string name) : delimiter_(delimiter), name_(std::move(name)) {}

  void Convert(std::string_view piece, std::string& out);
  void Finish(std::string& out);

 private:
  enum class At { kBegin, kPlain, kQuoted, kQuote };  // the last: behind a quote within quotes

  void Take(char c, std::string& out);
  void Put(char c, std::string& out);
  void BeginField(std::string& out);
  void EndField(std::string& out);
  void EndRow(std::string& out);
  [[noreturn]] void Fail(const std::string& cause) const;

  char delimiter_;
  std::string name_;
  std::vector<std::string> columns_;
  size_t header_bytes_ = 0;
  bool in_header_ = true;
  At at_ = At::kBegin;
  bool row_begun_ = false, after_return_ = false;
  size_t field_ = 0;  // of the row
  int64_t row_ = 0;   // behind the header, from 1 on
};

}  // namespace folio
