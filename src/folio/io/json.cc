#include "folio/io/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <locale>
#include <sstream>
#include <type_traits>
#include <unordered_set>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/base/utf8.h"
#include "folio/io/placeholder.h"

namespace folio {
namespace {

// A value's text for errors, cut if long.
std::string ForError(const Json& value) {
  constexpr size_t kMost = 200;
  std::string text = value.dump();
  if (text.size() <= kMost) return text;
  size_t end = kMost;
  while ((text[end] & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

// A number f * 2^e.
struct Scaled {
  uint64_t f = 0;
  int e = 0;
};

Scaled operator*(Scaled a, Scaled b) {
  __extension__ using Wide = unsigned __int128;
  return {static_cast<uint64_t>((Wide{a.f} * b.f + (uint64_t{1} << 63)) >> 64), a.e + b.e + 64};
}

Scaled ShiftedBy(Scaled x, int bits) {
  return {x.f << bits, x.e - bits};
}

// 10^(8i - 300) to 64 bits.
constexpr std::array<uint64_t, 79> kPowersOfTen = {
    0xAB70FE17C79AC6CA, 0xFF77B1FCBEBCDC4F, 0xBE5691EF416BD60C, 0x8DD01FAD907FFC3C,
    0xD3515C2831559A83, 0x9D71AC8FADA6C9B5, 0xEA9C227723EE8BCB, 0xAECC49914078536D,
    0x823C12795DB6CE57, 0xC21094364DFB5637, 0x9096EA6F3848984F, 0xD77485CB25823AC7,
    0xA086CFCD97BF97F4, 0xEF340A98172AACE5, 0xB23867FB2A35B28E, 0x84C8D4DFD2C63F3B,
    0xC5DD44271AD3CDBA, 0x936B9FCEBB25C996, 0xDBAC6C247D62A584, 0xA3AB66580D5FDAF6,
    0xF3E2F893DEC3F126, 0xB5B5ADA8AAFF80B8, 0x87625F056C7C4A8B, 0xC9BCFF6034C13053,
    0x964E858C91BA2655, 0xDFF9772470297EBD, 0xA6DFBD9FB8E5B88F, 0xF8A95FCF88747D94,
    0xB94470938FA89BCF, 0x8A08F0F8BF0F156B, 0xCDB02555653131B6, 0x993FE2C6D07B7FAC,
    0xE45C10C42A2B3B06, 0xAA242499697392D3, 0xFD87B5F28300CA0E, 0xBCE5086492111AEB,
    0x8CBCCC096F5088CC, 0xD1B71758E219652C, 0x9C40000000000000, 0xE8D4A51000000000,
    0xAD78EBC5AC620000, 0x813F3978F8940984, 0xC097CE7BC90715B3, 0x8F7E32CE7BEA5C70,
    0xD5D238A4ABE98068, 0x9F4F2726179A2245, 0xED63A231D4C4FB27, 0xB0DE65388CC8ADA8,
    0x83C7088E1AAB65DB, 0xC45D1DF942711D9A, 0x924D692CA61BE758, 0xDA01EE641A708DEA,
    0xA26DA3999AEF774A, 0xF209787BB47D6B85, 0xB454E4A179DD1877, 0x865B86925B9BC5C2,
    0xC83553C5C8965D3D, 0x952AB45CFA97A0B3, 0xDE469FBD99A05FE3, 0xA59BC234DB398C25,
    0xF6C69A72A3989F5C, 0xB7DCBF5354E9BECE, 0x88FCF317F22241E2, 0xCC20CE9BD35C78A5,
    0x98165AF37B2153DF, 0xE2A0B5DC971F303A, 0xA8D9D1535CE3B396, 0xFB9B7CD9A4A7443C,
    0xBB764C4CA7A44410, 0x8BAB8EEFB6409C1A, 0xD01FEF10A657842C, 0x9B10A4E5E9913129,
    0xE7109BFBA19C0C9D, 0xAC2820D9623BF429, 0x80444B5E7AA7CF85, 0xBF21E44003ACDD2D,
    0x8E679C2F5E44FF8F, 0xD433179D9C8CB841, 0x9E19DB92B4E31BA9};

// The digits of a number, and the power of ten of the last digit.
struct Decimal {
  std::string digits = {};
  int exponent = 0;
};

// Digits that read back as the same number above 0, nearly always the fewest: F. Loitsch, "Printing
// Floating-Point Numbers Quickly and Accurately with Integers", 2010, Grisu2. std::to_chars has
// fewer digits for one number in a thousand, and files must stay byte-equal to those of earlier
// versions.

Decimal DecimalOf(double value) {
  constexpr int kBias = 1075;
  constexpr uint64_t kHidden = uint64_t{1} << 52;
  const auto bits = std::bit_cast<uint64_t>(value);
  const auto biased = static_cast<int>(bits >> 52);
  const uint64_t fraction = bits & (kHidden - 1);
  const Scaled v =
      biased == 0 ? Scaled{fraction, 1 - kBias} : Scaled{fraction | kHidden, biased - kBias};
  // The midpoints to the neighbouring numbers.
  const bool nearer = fraction == 0 && biased > 1;
  const Scaled below = nearer ? Scaled{4 * v.f - 1, v.e - 2} : Scaled{2 * v.f - 1, v.e - 1};
  Scaled above = {2 * v.f + 1, v.e - 1};
  above = ShiftedBy(above, std::countl_zero(above.f));
  // The power of ten that brings the binary exponent into -60 to -32.
  const int least = -61 - above.e;
  const int k = least * 78913 / (1 << 18) + (least > 0 ? 1 : 0);  // log10(2)
  const int index = (300 + k + 7) / 8, power = 8 * index - 300;
  const Scaled ten = {kPowersOfTen[static_cast<size_t>(index)], ((power * 217706) >> 16) - 63};
  const uint64_t w = (ShiftedBy(v, std::countl_zero(v.f)) * ten).f;
  const Scaled largest = above * ten;
  uint64_t delta = largest.f - 1 - ((ShiftedBy(below, below.e - above.e) * ten).f + 1);
  uint64_t distance = largest.f - 1 - w;
  const int point = -largest.e;
  const uint64_t one = uint64_t{1} << point;

  uint64_t whole = (largest.f - 1) >> point, part = (largest.f - 1) & (one - 1);
  uint64_t tens = 1, unit = 0, rest = 0;  // the last digit's power of ten, and the remainder
  Decimal decimal{.digits = {}, .exponent = 1 - power};
  for (; whole / tens >= 10; tens *= 10) ++decimal.exponent;
  do {
    --decimal.exponent;
    if (tens > 0) {
      decimal.digits += static_cast<char>('0' + whole / tens);
      whole %= tens;
      rest = (whole << point) + part;
      unit = tens << point;
      tens /= 10;
    } else {
      part *= 10;
      delta *= 10;
      distance *= 10;
      decimal.digits += static_cast<char>('0' + (part >> point));
      part &= one - 1;
      rest = part;
      unit = one;
    }
  } while (rest > delta);
  // The last digit is lowered while that brings it nearer to the number.
  for (; rest < distance && delta - rest >= unit &&
         (rest + unit < distance || distance - rest > rest + unit - distance);
       rest += unit) {
    --decimal.digits.back();
  }
  return decimal;
}

void AppendNumber(double value, std::string& out) {
  constexpr int kLeast = -4, kMost = 15;  // positions of the point without an exponent
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  if (std::signbit(value)) out += '-';
  auto [digits, exponent] = value == 0 ? Decimal{"0", 0} : DecimalOf(std::abs(value));
  const int point = static_cast<int>(digits.size()) + exponent;  // digits before the point
  if (point <= kLeast || point > kMost) {
    if (digits.size() > 1) digits.insert(1, ".");
    out += fmt::format("{}e{:+03}", digits, point - 1);
  } else if (point <= 0) {
    out.append("0.").append(static_cast<size_t>(-point), '0').append(digits);
  } else {
    const auto places = static_cast<size_t>(point);
    if (digits.size() <= places) digits.resize(places + 1, '0');
    out += digits.insert(places, ".");
  }
}

constexpr bool IsSpace(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

// Characters that need no escape inside a string.
constexpr std::array<bool, 256> kPlain = [] {
  std::array<bool, 256> plain{};
  for (size_t c = 0x20; c < 256; ++c) plain[c] = c != '"' && c != '\\';
  return plain;
}();

// Appends a string in quotes. Bytes that are not UTF-8 become U+FFFD.
void AppendJsonString(std::string_view text, std::string& out) {
  if (FindInvalidUtf8(text) != text.npos) return AppendJsonString(ReplaceInvalidUtf8(text), out);
  constexpr std::string_view kMeanings = "\"\\\b\f\n\r\t";
  constexpr std::string_view kKinds = "\"\\bfnrt";
  out += '"';
  size_t plain = 0;  // the beginning of the bytes that need no escape
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

}  // namespace

Json::Json(std::nullptr_t) {}
Json::Json(double value) : value_(value) {}
Json::Json(const char* text) : value_(std::string(text)) {}
Json::Json(std::string_view text) : value_(std::string(text)) {}
Json::Json(std::string text) : value_(std::move(text)) {}

Json::Json(std::initializer_list<Json> values) {
  const bool is_object = std::ranges::all_of(values, [](const Json& value) {
    return value.is_array() && value.size() == 2 && value[0].is_string();
  });
  if (!is_object) {
    value_ = Array(values);
    return;
  }
  Object& members = value_.emplace<Object>();
  members.reserve(values.size());
  for (const Json& value : values) members.push_back({value[0].text(), value[1]});
}

Json Json::array() {
  return array({});
}

Json Json::array(std::initializer_list<Json> values) {
  Json json;
  json.value_ = Array(values);
  return json;
}

Json Json::object() {
  Json json;
  json.value_.emplace<Object>();
  return json;
}

void Json::SetInteger(uint64_t bits, bool is_signed) {
  if (is_signed) {
    value_ = static_cast<int64_t>(bits);
  } else {
    value_ = bits;
  }
}

Json::Json(const Json& other) {
  *this = other;
}
Json::Json(Json&&) noexcept = default;
// Copies before it replaces, so that the value is unchanged if memory runs out. std::variant's own
// copy would be left without a valid alternative (GCC 12).
Json& Json::operator=(const Json& other) {
  std::visit(
      [this]<class T>(const T& value) {
        static_assert(std::is_nothrow_move_constructible_v<T>);
        T copy = value;
        value_.template emplace<T>(std::move(copy));
      },
      other.value_);
  return *this;
}
Json& Json::operator=(Json&&) noexcept = default;
Json::~Json() = default;

bool Json::is_number_integer() const {
  return std::holds_alternative<int64_t>(value_) || std::holds_alternative<uint64_t>(value_);
}

bool Json::is_number_unsigned() const {
  const int64_t* small = std::get_if<int64_t>(&value_);
  return small != nullptr ? *small >= 0 : std::holds_alternative<uint64_t>(value_);
}

const std::string& Json::text() const {
  if (const std::string* value = std::get_if<std::string>(&value_)) return *value;
  throw JsonError(fmt::format("expected a string, found {}", ForError(*this)));
}

template <class T>
T Json::get() const {
  const int64_t* small = std::get_if<int64_t>(&value_);
  const uint64_t* large = std::get_if<uint64_t>(&value_);
  if constexpr (std::same_as<T, std::string>) {
    return text();
  } else if constexpr (std::same_as<T, bool>) {
    if (const bool* value = std::get_if<bool>(&value_)) return *value;
    throw JsonError(fmt::format("expected true or false, found {}", ForError(*this)));
  } else if constexpr (std::same_as<T, double>) {
    if (const double* value = std::get_if<double>(&value_)) return *value;
    if (small != nullptr) return static_cast<double>(*small);
    if (large != nullptr) return static_cast<double>(*large);
    throw JsonError(fmt::format("expected a number, found {}", ForError(*this)));
  } else {
    if (small != nullptr && std::in_range<T>(*small)) return static_cast<T>(*small);
    if (large != nullptr && std::in_range<T>(*large)) return static_cast<T>(*large);
    throw JsonError(
        fmt::format("expected an integer of {} bits, found {}", 8 * sizeof(T), ForError(*this)));
  }
}
template bool Json::get() const;
template int32_t Json::get() const;
template uint32_t Json::get() const;
template int64_t Json::get() const;
template uint64_t Json::get() const;
template double Json::get() const;
template std::string Json::get() const;

size_t Json::size() const {
  return is_array() ? std::get<Array>(value_).size() : is_object() ? items().size() : 0;
}

const Json* Json::begin() const {
  if (const Array* values = std::get_if<Array>(&value_)) return values->data();
  throw JsonError(fmt::format("expected an array, found {}", ForError(*this)));
}

const Json* Json::end() const {
  return begin() + size();
}

const Json& Json::at(size_t index) const {
  if (is_array() && index < size()) return begin()[index];
  throw JsonError(fmt::format("expected an array of more than {} values", index));
}

void Json::push_back(Json value) {
  if (is_null()) *this = array();
  std::get<Array>(value_).push_back(std::move(value));
}

const Json::Object& Json::items() const {
  if (const Object* members = std::get_if<Object>(&value_)) return *members;
  throw JsonError(fmt::format("expected an object, found {}", ForError(*this)));
}

const Json* Json::find(std::string_view key) const {
  if (!is_object()) return nullptr;
  const auto found = std::ranges::find(items(), key, &Member::key);
  return found == items().end() ? nullptr : &found->value;
}

const Json& Json::at(std::string_view key) const {
  if (const Json* value = find(key)) return *value;
  throw JsonError(fmt::format("there is no \"{}\"", key));
}

Json& Json::operator[](std::string_view key) {
  if (const Json* value = find(key)) return const_cast<Json&>(*value);
  return Add(std::string(key), nullptr);
}

Json& Json::Add(std::string key, Json value) {
  if (is_null()) *this = object();
  Object& members = std::get<Object>(value_);
  members.push_back({std::move(key), std::move(value)});
  return members.back().value;
}

void Json::update(const Json& other) {
  for (const auto& [key, value] : other.items()) (*this)[key] = value;
}

bool operator==(const Json& a, const Json& b) {
  const bool mixed = a.is_number() && b.is_number() && a.value_.index() != b.value_.index();
  return mixed ? a.get<double>() == b.get<double>() : a.value_ == b.value_;
}

void Json::AppendTo(std::string& out, int indent, int depth) const {
  const auto new_line = [&](int levels) {
    if (indent < 0) return;
    out += '\n';
    out.append(static_cast<size_t>(indent) * static_cast<size_t>(levels), ' ');
  };
  if (is_null()) out += "null";
  if (const bool* value = std::get_if<bool>(&value_)) out += *value ? "true" : "false";
  if (const int64_t* value = std::get_if<int64_t>(&value_)) out += std::to_string(*value);
  if (const uint64_t* value = std::get_if<uint64_t>(&value_)) out += std::to_string(*value);
  if (const double* value = std::get_if<double>(&value_)) AppendNumber(*value, out);
  if (const std::string* value = std::get_if<std::string>(&value_)) AppendJsonString(*value, out);
  if (!is_array() && !is_object()) return;
  const char* brackets = is_array() ? "[]" : "{}";
  out += brackets[0];
  for (size_t i = 0; i < size(); ++i) {
    if (i > 0) out += ',';
    new_line(depth + 1);
    if (is_object()) {
      AppendJsonString(items()[i].key, out);
      out += indent < 0 ? ":" : ": ";
    }
    (is_array() ? at(i) : items()[i].value).AppendTo(out, indent, depth + 1);
  }
  if (!empty()) new_line(depth);
  out += brackets[1];
}

std::string Json::dump(int indent) const {
  std::string out;
  AppendTo(out, indent, 0);
  return out;
}

std::string JsonReader::Place(size_t at) const {
  const std::string_view before = text_.substr(0, std::min(at, text_.size()));
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0: the first line
  return fmt::format("{}:{}:{}", source_.name, source_.line + lines,
                     before.size() - line_begin + 1);
}

void JsonReader::Fail(size_t at, const std::string& cause) const {
  RefusePlaceholder(text_, source_.name);
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
  // A written byte may alias any member, as far as the compiler knows, so locals are used.
  const char* from = text_.data() + at_;
  const char* const end = text_.data() + text_.size();
  while (true) {
    while (from < end && kPlain[static_cast<uint8_t>(*from)]) *to++ = *from++;
    at_ = static_cast<size_t>(from - text_.data());
    if (from == end) Fail(begin, "the string is not closed");
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

// Reads a backslash and what belongs to it; writes at most four bytes, and no more than were read.
// Half a surrogate pair becomes U+FFFD: it is no character, but other programs write it where they
// cut a text inside a pair.
size_t JsonReader::Escape(char* out) {
  const size_t begin = at_++;
  const char kind = at_ < text_.size() ? text_[at_++] : '\0';
  constexpr std::string_view kKinds = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  if (const size_t place = kKinds.find(kind); place != kKinds.npos) {
    *out = kMeanings[place];
    return 1;
  }
  if (kind != 'u') Fail(begin, "invalid escape sequence");
  char32_t code = FourHexDigits();
  if (code >= 0xD800 && code < 0xDC00 && text_.substr(at_).starts_with("\\u")) {
    const size_t behind = at_;
    at_ += 2;
    const uint32_t low = FourHexDigits();
    if (low >= 0xDC00 && low < 0xE000) {
      code = 0x10000 + ((code - 0xD800) << 10 | (low - 0xDC00));
    } else {
      at_ = behind;  // an unpaired surrogate
    }
  }
  if (code >= 0xD800 && code < 0xE000) code = 0xFFFD;
  if (code >= 0x80 && code < 0x800) {  // two-byte characters such as names of bytes
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
    const int digit = at_ < text_.size() ? HexDigit(text_[at_]) : -1;
    if (digit < 0) Fail(at_, "expected four hexadecimal digits");
    value = value << 4 | static_cast<uint32_t>(digit);
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
  if (from >= end) Fail(begin, "the string is not closed");
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
    Fail(begin + bad, "the string is not UTF-8");
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
                     fmt::format("at most {} are allowed", source_.most_values), "split the text");
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
  if (source_.python_numbers && (take("NaN") || take("Infinity") || take("-Infinity"))) {
    return nullptr;
  }
  return Number();
}

// Skips digits; returns false if there are none.
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
  bool integer = !(zero && text_[begin] == '-');  // -0 is not an integer
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
  if (!sound) Fail(at_, at_ == begin ? "expected a value" : "incomplete number");
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
  // Out of range, or so small that it is 0.
  std::istringstream stream{std::string(first, end)};
  stream.imbue(std::locale::classic());
  if (!(stream >> value)) Fail(begin, "the number is too large for a double");
  return value;
}

Json ParseJson(std::string_view text, const std::string& where, int64_t line) {
  return ParseJsonFrom({where, line}, text);
}

Json ParseJsonFrom(JsonSource source, std::string_view text) {
  const bool mark = text.starts_with("\xEF\xBB\xBF");  // byte order mark: ignored
  JsonReader reader(text, std::move(source), mark ? 3 : 0);
  Json value = reader.Value();
  reader.ExpectEnd();
  return value;
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

Json FieldJson(const Field& field) {
  return std::visit(
      [&](auto value) {
        if constexpr (std::is_same_v<decltype(value), Field::Parsed>) {
          return Json(FieldText(field));
        } else {
          return Json(*value);
        }
      },
      field.value);
}

}  // namespace folio
