#include "folio/io/json_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <locale>
#include <sstream>
#include <unordered_set>

#include "folio/base/error.h"
#include "folio/base/utf8.h"

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

std::string JsonReader::Place(size_t at) const {
  const std::string_view before = text_.substr(0, std::min(at, text_.size()));
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0: the first line
  return fmt::format("{}:{}:{}", source_.name, source_.line + lines,
                     before.size() - line_begin + 1);
}

void JsonReader::Fail(size_t at, const std::string& cause) const {
  throw InputError(fmt::format("{}: {}", Place(at), source_.mistake), cause, source_.help);
}

char JsonReader::Peek() {
  while (at_ < text_.size() && IsSpace(text_[at_])) ++at_;
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool JsonReader::Take(char c) {
  if (Peek() != c || at_ == text_.size()) return false;
  ++at_;
  return true;
}

void JsonReader::Expect(char c) {
  if (Take(c)) return;
  Fail(at_, at_ == text_.size() ? fmt::format("expected '{}', found the end of the file", c)
                                : fmt::format("expected '{}'", c));
}

void JsonReader::ExpectEnd() {
  Peek();
  if (at_ < text_.size()) Fail(at_, "expected the end of the file");
}

size_t JsonReader::String(char* out) {
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
// Half a surrogate pair becomes U+FFFD: it is no character, and other programs write it all the
// same where they cut a text between the halves.
size_t JsonReader::Escape(char* out) {
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
    const size_t behind = at_;
    at_ += 2;
    const uint32_t low = FourHexDigits();
    if (low >= 0xDC00 && low < 0xE000) {
      code = 0x10000 + ((code - 0xD800) << 10 | (low - 0xDC00));
    } else {
      at_ = behind;  // a character of its own
    }
  }
  if (code >= 0xD800 && code < 0xE000) code = 0xFFFD;
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

uint32_t JsonReader::FourHexDigits() {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i, ++at_) {
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    const bool letter = (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    if (!letter && (c < '0' || c > '9')) Fail(at_, "expected four hexadecimal digits");
    value = value << 4 | static_cast<uint32_t>(letter ? (c & 0xF) + 9 : c - '0');
  }
  return value;
}

int64_t JsonReader::Integer() {
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

void JsonReader::SkipString() {
  const size_t begin = at_++;
  const char* from = text_.data() + at_;
  const char* const end = text_.data() + text_.size();
  for (; from < end && *from != '"'; ++from) {
    if (*from == '\\' && from + 1 < end) ++from;
  }
  if (from >= end) Fail(begin, "this string does not end");
  at_ = static_cast<size_t>(from - text_.data()) + 1;
}

void JsonReader::SkipValue() {
  int64_t depth = 0;
  do {
    const char c = Peek();
    if (at_ == text_.size()) Fail(at_, "the file ends inside a value");
    if (c == '"') {
      SkipString();
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

std::string JsonReader::Text() {
  if (Peek() != '"') Expect('"');
  const size_t begin = at_;
  SkipString();
  const std::string_view raw = text_.substr(begin, at_ - begin);
  if (const size_t bad = FindInvalidUtf8(raw); bad != raw.npos) {
    Fail(begin + bad, "this string is not UTF-8");
  }
  std::string text(raw.size(), '\0');
  at_ = begin;
  text.resize(String(text.data()));
  return text;
}

void JsonReader::Deeper() {
  if (++depth_ <= kMaxJsonDepth) return;
  Fail(at_, fmt::format("nested deeper than {} levels", kMaxJsonDepth));
}

void JsonReader::Object(const std::function<void(const std::string& key)>& member) {
  Expect('{');
  Deeper();
  std::unordered_set<std::string> keys;
  if (Peek() != '}') {
    do {
      const auto [key, is_new] = keys.insert(Text());
      if (!is_new) Fail(at_, fmt::format("the key \"{}\" appears twice", *key));
      Expect(':');
      member(*key);
    } while (Take(','));
  }
  Expect('}');
  --depth_;
}

void JsonReader::Array(const std::function<void()>& element) {
  Expect('[');
  Deeper();
  if (Peek() != ']') {
    do {
      element();
    } while (Take(','));
  }
  Expect(']');
  --depth_;
}

Json JsonReader::Value() {
  Json value;
  if (++values_ > source_.most_values) {
    throw InputError(fmt::format("{}: too many values", Place(at_)),
                     fmt::format("at most {} are taken", source_.most_values),
                     "say it in several texts");
  }
  switch (Peek()) {
    case '{':
      value = Json::object();
      Object([&](const std::string& key) { value.Add(key, Value()); });
      return value;
    case '[':
      value = Json::array();
      Array([&] { value.push_back(Value()); });
      return value;
    case '"':
      return Text();
    default:
      break;
  }
  const auto take = [&](std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  };
  if (take("null")) return nullptr;
  if (take("true")) return true;
  if (take("false")) return false;
  return Number();
}

// Goes over digits; false if there are none.
bool JsonReader::Digits() {
  const size_t begin = at_;
  while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
  return at_ > begin;
}

Json JsonReader::Number() {
  const size_t begin = at_;
  const auto next = [&] { return at_ < text_.size() ? text_[at_] : '\0'; };
  if (next() == '-') ++at_;
  const bool zero = next() == '0';
  if (zero) ++at_;
  bool sound = zero || Digits();
  bool integer = !(zero && text_[begin] == '-');  // -0 is none
  if (sound && next() == '.') {
    ++at_;
    integer = false;
    sound = Digits();
  }
  if (sound && (next() == 'e' || next() == 'E')) {
    ++at_;
    integer = false;
    if (next() == '+' || next() == '-') ++at_;
    sound = Digits();
  }
  if (!sound) Fail(at_, at_ == begin ? "expected a value" : "this number does not end");
  const char* const first = text_.data() + begin;
  const char* const end = text_.data() + at_;
  if (int64_t value = 0; integer && std::from_chars(first, end, value).ec == std::errc()) {
    return value;
  }
  if (uint64_t value = 0; integer && std::from_chars(first, end, value).ec == std::errc()) {
    return value;
  }
  double value = 0;
  if (std::from_chars(first, end, value).ec == std::errc()) return value;
  // Too large, or so small that it is 0.
  std::istringstream stream{std::string(first, end)};
  stream.imbue(std::locale::classic());
  if (!(stream >> value)) Fail(begin, "no double is as large as this number");
  return value;
}

Json ParseJson(std::string_view text, const std::string& where, int64_t line) {
  return ParseJsonFrom({where, line}, text);
}

Json ParseJsonFrom(JsonSource source, std::string_view text) {
  const bool mark = text.starts_with("\xEF\xBB\xBF");  // of the order of bytes: means nothing
  JsonReader reader(text, std::move(source), mark ? 3 : 0);
  Json value = reader.Value();
  reader.ExpectEnd();
  return value;
}

}  // namespace folio
