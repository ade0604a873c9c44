#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace folio {

// Returns the delimiter of a table that begins with `head`: the first of comma, semicolon, tab and
// | that occurs in its header outside of quotes, else a comma.
char FindDelimiter(std::string_view head);

// Converts a table of text (RFC 4180) to JSON lines: each row becomes an object whose members have
// the names in the header. A quoted field may contain delimiters, line breaks and doubled quotes.
// Rows end in \n, \r\n or \r; blank rows are left out. Holds only the header in memory. Throws a
// kInput Error that names the row if it has more or fewer fields than the header, or a quote that
// is not closed.
class TableFilter {
 public:
  TableFilter(char delimiter, std::string name) : delimiter_(delimiter), name_(std::move(name)) {}

  void Convert(std::string_view piece, std::string& out);
  void Finish(std::string& out);

 private:
  enum class At { kBegin, kPlain, kQuoted, kQuote };  // kQuote: behind a quote in a quoted field

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
