#include "folio/io/json_writer.h"

#include <fmt/format.h>

#include "folio/base/utf8.h"

namespace folio {

void AppendJsonString(std::string_view text, std::string& out) {
  if (FindInvalidUtf8(text) != text.npos) return AppendJsonString(ReplaceInvalidUtf8(text), out);
  constexpr std::string_view kMeanings = "\"\\\b\f\n\r\t";
  constexpr std::string_view kKinds = "\"\\bfnrt";
  out += '"';
  size_t plain = 0;  // the beginning of what stands for itself
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\') continue;
    out.append(text, plain, i - plain);
    plain = i + 1;
    if (const size_t kind = kMeanings.find(c); kind != kMeanings.npos) {
      out += '\\';
      out += kKinds[kind];
    } else {
      out += fmt::format("\\u{:04x}", c);
    }
  }
  out.append(text, plain);
  out += '"';
}

void JsonWriter::Separate() {
  if (comma_) out_ += ',';
  comma_ = true;
}

JsonWriter& JsonWriter::Begin(char bracket) {
  Separate();
  out_ += bracket;
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::End(char bracket) {
  out_ += bracket;
  comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  Text(key);
  out_ += ':';
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::Text(std::string_view text) {
  Separate();
  AppendJsonString(text, out_);
  return *this;
}

JsonWriter& JsonWriter::Value(const Json& value) {
  Separate();
  out_ += value.dump();
  return *this;
}

}  // namespace folio
