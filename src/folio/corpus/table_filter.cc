#include "folio/corpus/table_filter.h"

#include <fmt/format.h>

#include <algorithm>

#include "folio/base/error.h"
#include "folio/io/json.h"

namespace folio {
namespace {

constexpr size_t kMostHeaderBytes = size_t{1} << 20;

}  // namespace

char FindDelimiter(std::string_view head) {
  std::string seen;
  bool quoted = false;
  for (const char c : head) {
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '\n' || c == '\r') break;
    seen += c;
  }
  for (const char delimiter : {',', ';', '\t', '|'}) {
    if (seen.find(delimiter) != seen.npos) return delimiter;
  }
  return ',';
}

void TableFilter::Convert(std::string_view piece, std::string& out) {
  for (const char c : piece) Take(c, out);
}

void TableFilter::Finish(std::string& out) {
  if (at_ == At::kQuoted) Fail("a quoted field is not closed");
  EndRow(out);
  if (in_header_) Fail("it is empty");
}

void TableFilter::Take(char c, std::string& out) {
  const bool after_return = std::exchange(after_return_, false);
  if (at_ == At::kQuoted) {
    if (c == '"') {
      at_ = At::kQuote;
    } else {
      Put(c, out);
    }
    return;
  }
  if (at_ == At::kQuote && c == '"') {  // two of them are one
    at_ = At::kQuoted;
    return Put(c, out);
  }
  if (c == '\n' || c == '\r') {
    after_return_ = c == '\r';
    if (c == '\r' || !after_return) EndRow(out);
    return;
  }
  if (c == delimiter_) {
    if (at_ == At::kBegin) BeginField(out);
    return EndField(out);
  }
  if (at_ == At::kQuote) Fail("unexpected text after the closing quote of a field");
  if (at_ == At::kBegin) {
    BeginField(out);
    at_ = c == '"' ? At::kQuoted : At::kPlain;
    if (c == '"') return;
  }
  Put(c, out);
}

void TableFilter::BeginField(std::string& out) {
  row_begun_ = true;
  if (in_header_) {
    columns_.emplace_back();
    return;
  }
  if (field_ == 0) ++row_;
  if (field_ == columns_.size()) {
    Fail(fmt::format("it has more than the {} fields of the header", columns_.size()));
  }
  out += fmt::format("{}{}:\"", field_ == 0 ? "{" : ",", Json(columns_[field_]).dump());
}

void TableFilter::Put(char c, std::string& out) {
  if (in_header_) {
    if (++header_bytes_ > kMostHeaderBytes) Fail("the header is longer than 1 MiB");
    columns_.back() += c;
  } else if (c == '"' || c == '\\') {
    out += '\\';
    out += c;
  } else if (static_cast<uint8_t>(c) < 0x20) {
    out += fmt::format("\\u{:04x}", static_cast<uint8_t>(c));
  } else {
    out += c;
  }
}

void TableFilter::EndField(std::string& out) {
  if (!in_header_) out += '"';
  at_ = At::kBegin;
  ++field_;
}

void TableFilter::EndRow(std::string& out) {
  if (!row_begun_) return;
  if (at_ == At::kBegin) BeginField(out);  // behind a delimiter
  EndField(out);
  if (in_header_) {
    std::vector<std::string> sorted = columns_;
    std::ranges::sort(sorted);
    const auto twice = std::ranges::adjacent_find(sorted);
    if (twice != sorted.end()) Fail(fmt::format("two columns have the name \"{}\"", *twice));
    in_header_ = false;
  } else {
    if (field_ < columns_.size()) {
      Fail(fmt::format("it has {} fields, the header has {}", field_, columns_.size()));
    }
    out += "}\n";
  }
  field_ = 0;
  row_begun_ = false;
}

void TableFilter::Fail(const std::string& cause) const {
  const std::string where = row_ > 0 ? fmt::format("row {}: ", row_) : "";
  throw InputError(
      fmt::format("{}: not a table", name_), where + cause,
      "expected a header with column names, and rows with the same number of fields, quoted if "
      "they contain delimiters or line breaks; to train on the file as plain text, name it .txt");
}

}  // namespace folio
