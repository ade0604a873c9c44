#include "folio/text/json_scanner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "folio/base/error.h"
#include "folio/text/utf8.h"

namespace folio {
namespace {

constexpr bool IsSpace(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

// Characters that stand for themselves inside a string.
constexpr std::array<bool, 256> kPlain = [] {
  std::array<bool, 256> plain{};
  for (size_t c = 0x20; c < 256; ++c) plain[c] = c != '"' && c != '\\';
  return plain;
}();

}  // namespace

std::string JsonScanner::Place(size_t at) const {
  const std::string_view before = text_.substr(0, std::min(at, text_.size()));
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0: the first line
  return fmt::format("{}:{}:{}", where_, lines + 1, before.size() - line_begin + 1);
}

void JsonScanner::Fail(size_t at, const std::string& cause) const {
  throw InputError(fmt::format("{}: not a tokenizer's file", Place(at)), cause,
                   "copy the file again from where it was published");
}

char JsonScanner::Peek() {
  while (at_ < text_.size() && IsSpace(text_[at_])) ++at_;
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool JsonScanner::Take(char c) {
  if (Peek() != c || at_ == text_.size()) return false;
  ++at_;
  return true;
}

void JsonScanner::Expect(char c) {
  if (Take(c)) return;
  Fail(at_, at_ == text_.size() ? fmt::format("expected '{}', found the end of the file", c)
                                : fmt::format("expected '{}'", c));
}

void JsonScanner::ExpectEnd() {
  Peek();
  if (at_ < text_.size()) Fail(at_, "expected the end of the file");
}

size_t JsonScanner::String(char* out) {
  Expect('"');
  const size_t begin = at_ - 1;
  char* to = out;
  // Bytes written may be anything for all the compiler knows, so what it reads is kept aside.
  const char* from = text_.data() + at_;
  const char* const end = text_.data() + text_.size();
  while (true) {
    while (from < end && kPlain[static_cast<uint8_t>(*from)]) *to++ = *from++;
    at_ = static_cast<size_t>(from - text_.data());
    if (from == end) Fail(begin, "this string does not end");
    if (*from == '"') {
      ++at_;
      return static_cast<size_t>(to - out);
    }
    if (*from != '\\') {
      Fail(at_,
           fmt::format("the control character 0x{:02X} in a string", static_cast<uint8_t>(*from)));
    }
    to += Escape(to);
    from = text_.data() + at_;
  }
}

// Takes a backslash and what belongs to it; writes at most four bytes, and no more than were taken.
size_t JsonScanner::Escape(char* out) {
  const size_t begin = at_++;
  const char kind = at_ < text_.size() ? text_[at_++] : '\0';
  constexpr std::string_view kKinds = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  if (const size_t place = kKinds.find(kind); place != kKinds.npos) {
    *out = kMeanings[place];
    return 1;
  }
  if (kind != 'u') Fail(begin, "no such escape");
  char32_t code = FourHexDigits();
  if (code >= 0xD800 && code < 0xDC00 && text_.substr(at_).starts_with("\\u")) {
    at_ += 2;
    const uint32_t low = FourHexDigits();
    if (low < 0xDC00 || low >= 0xE000) Fail(begin, "half a surrogate pair");
    code = 0x10000 + ((code - 0xD800) << 10 | (low - 0xDC00));
  } else if (code >= 0xD800 && code < 0xE000) {
    Fail(begin, "half a surrogate pair");
  }
  if (code >= 0x80 && code < 0x800) {  // the names of bytes
    out[0] = static_cast<char>(0xC0 | code >> 6);
    out[1] = static_cast<char>(0x80 | (code & 0x3F));
    return 2;
  }
  std::string character;
  AppendUtf8(code, character);
  std::copy(character.begin(), character.end(), out);
  return character.size();
}

uint32_t JsonScanner::FourHexDigits() {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i, ++at_) {
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    const bool letter = (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    if (!letter && (c < '0' || c > '9')) Fail(at_, "expected four hexadecimal digits");
    value = value << 4 | static_cast<uint32_t>(letter ? (c & 0xF) + 9 : c - '0');
  }
  return value;
}

int64_t JsonScanner::Integer() {
  const bool negative = Take('-');
  const size_t begin = at_;
  int64_t value = 0;
  while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
    if (at_ - begin == 18) Fail(begin, "too many digits");
    value = 10 * value + (text_[at_++] - '0');
  }
  const bool leading_zero = at_ - begin > 1 && text_[begin] == '0';
  const bool fraction =
      at_ < text_.size() && (text_[at_] == '.' || text_[at_] == 'e' || text_[at_] == 'E');
  if (at_ == begin || leading_zero || fraction) Fail(begin, "expected an integer");
  return negative ? -value : value;
}

void JsonScanner::SkipValue() {
  int64_t depth = 0;
  do {
    const char c = Peek();
    if (at_ == text_.size()) Fail(at_, "the file ends inside a value");
    if (c == '"') {
      const size_t begin = at_++;
      const char* from = text_.data() + at_;
      const char* const end = text_.data() + text_.size();
      for (; from < end && *from != '"'; ++from) {
        if (*from == '\\' && from + 1 < end) ++from;
      }
      if (from >= end) Fail(begin, "this string does not end");
      at_ = static_cast<size_t>(from - text_.data()) + 1;
    } else if (c == '{' || c == '[') {
      ++depth;
      ++at_;
    } else if (c == '}' || c == ']') {
      if (--depth < 0) Fail(at_, "expected a value");
      ++at_;
    } else if (depth > 0) {
      ++at_;
    } else {
      const size_t begin = at_;
      while (at_ < text_.size() && !IsSpace(text_[at_]) && text_[at_] != ',' && text_[at_] != '}' &&
             text_[at_] != ']') {
        ++at_;
      }
      if (at_ == begin) Fail(at_, "expected a value");
    }
  } while (depth > 0);
}

void JsonScanner::Object(const std::function<void(const std::string& key)>& member) {
  Expect('{');
  if (Take('}')) return;
  do {
    Peek();
    const size_t begin = at_;
    if (Peek() != '"') Fail(at_, "expected the name of a member");
    SkipValue();
    std::string key(at_ - begin, '\0');
    at_ = begin;
    key.resize(String(key.data()));
    Expect(':');
    member(key);
  } while (Take(','));
  Expect('}');
}

NamedIds ScanNamedIds(JsonScanner& scanner) {
  NamedIds result;
  const size_t room = scanner.left();
  if (room > std::numeric_limits<uint32_t>::max()) scanner.Fail(scanner.at(), "longer than 4 GB");
  result.names = std::make_unique_for_overwrite<char[]>(room);
  result.entries.reserve(room / 16);
  uint32_t used = 0;
  scanner.Expect('{');
  if (scanner.Take('}')) return result;
  do {
    const auto length = static_cast<uint32_t>(scanner.String(result.names.get() + used));
    scanner.Expect(':');
    scanner.Peek();
    const size_t at = scanner.at();
    const int64_t id = scanner.Integer();
    if (id < 0 || id > std::numeric_limits<int32_t>::max()) {
      scanner.Fail(at, fmt::format("the id {} is out of range", id));
    }
    result.entries.push_back({used, length, static_cast<int32_t>(id)});
    used += length;
  } while (scanner.Take(','));
  scanner.Expect('}');
  return result;
}

}  // namespace folio
