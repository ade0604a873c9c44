#pragma once

#include <array>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "folio/base/fields.h"

namespace folio {

inline constexpr int kMaxJsonDepth = 64;

// A value does not have the type that its reader expects.
class JsonError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A JSON value. An object keeps the order of its members; a look-up searches them linearly.
class Json {
 public:
  struct Member;
  using Array = std::vector<Json>;
  using Object = std::vector<Member>;

  Json(std::nullptr_t = nullptr);
  template <std::same_as<bool> T>
  Json(T value) : value_(value) {}
  template <std::integral T>
  requires(!std::same_as<T, bool>) Json(T value) {
    SetInteger(static_cast<uint64_t>(value), std::in_range<int64_t>(value));
  }
  Json(double value);
  Json(const char* text);
  Json(std::string_view text);
  Json(std::string text);
  template <class T>
  Json(std::span<const T> values) : Json(array()) {
    for (const T& value : values) push_back(value);
  }
  template <class T>
  Json(const std::vector<T>& values) : Json(std::span<const T>(values)) {}
  template <class T, size_t N>
  Json(const std::array<T, N>& values) : Json(std::span<const T>(values)) {}
  template <class T>
  Json(const std::optional<T>& value) : Json(value ? Json(*value) : Json()) {}
  // An object if each value is an array of a text and one more value, else an array.
  Json(std::initializer_list<Json> values);
  static Json array();
  static Json array(std::initializer_list<Json> values);
  static Json object();

  Json(const Json&);
  Json(Json&&) noexcept;
  Json& operator=(const Json&);
  Json& operator=(Json&&) noexcept;
  ~Json();

  bool is_null() const { return value_.index() == 0; }
  bool is_boolean() const { return std::holds_alternative<bool>(value_); }
  bool is_number() const { return is_number_integer() || std::holds_alternative<double>(value_); }
  bool is_number_integer() const;   // 64 bits, written without a fraction
  bool is_number_unsigned() const;  // such an integer that is not negative
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }

  // A bool, an integer of 32 or 64 bits, a double or a std::string. Throws JsonError unless the
  // value has that type, and fits if it is an integer.
  template <class T>
  T get() const;
  const std::string& text() const;  // throws JsonError

  // The number of elements of an array or members of an object; 0 for anything else.
  size_t size() const;
  bool empty() const { return size() == 0; }
  // The elements of an array; throws JsonError for other values.
  const Json* begin() const;
  const Json* end() const;
  const Json& at(size_t index) const;
  const Json& operator[](size_t index) const { return at(index); }
  // Null becomes an array.
  void push_back(Json value);

  // The members of an object; throws JsonError for anything else.
  const Object& items() const;
  // The member's value, nullptr if it does not exist or this is no object.
  const Json* find(std::string_view key) const;
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  const Json& at(std::string_view key) const;  // throws JsonError
  const Json& operator[](std::string_view key) const { return at(key); }
  // Adds a null if the member does not exist. Null becomes an object.
  Json& operator[](std::string_view key);
  // Adds a member whose key is known to be new. Null becomes an object.
  Json& Add(std::string key, Json value);
  // Sets all members of `other`.
  void update(const Json& other);

  // 1 and 1.0 are equal; members must have the same order.
  friend bool operator==(const Json& a, const Json& b);

  // As text: one line if `indent` is negative, else a line for each value, indented by that many
  // spaces for each level. Doubles have enough digits to be read back exactly, and become null if
  // JSON cannot express them. Bytes that are not UTF-8 become U+FFFD.
  std::string dump(int indent = -1) const;

 private:
  void SetInteger(uint64_t bits, bool is_signed);
  void AppendTo(std::string& out, int indent, int depth) const;

  std::variant<std::nullptr_t, bool, int64_t, uint64_t, double, std::string, Array, Object> value_;
};

struct Json::Member {
  std::string key;
  Json value;
  bool operator==(const Member&) const = default;
};

// Parses one JSON text (RFC 8259, UTF-8) from an untrusted source. Throws a kInput Error with
// `where`, line and column if the text is not JSON, repeats a key of an object, nests deeper than
// kMaxJsonDepth or has anything behind the value. `line` is the line on which the text begins.
Json ParseJson(std::string_view text, const std::string& where, int64_t line = 1);

// The name and position of a text in errors.
struct JsonSource {
  std::string name;
  int64_t line = 1;  // on which the text begins
  const char* mistake = "not valid JSON";
  const char* help = "correct the file, or copy it again if it may be damaged";
  size_t most_values = SIZE_MAX;  // the most values that Value may create
  bool python_numbers = false;    // accept NaN, Infinity and -Infinity, and read them as null
};

// The value of a field: true, 3, 0.5, null, or its text.
Json FieldJson(const Field& field);

// Reads JSON (RFC 8259) from left to right: whole values, or only selected parts without building
// values, which takes a few milliseconds for a vocabulary of 50,000 tokens. Anything unexpected is
// a kInput Error with line and column.
class JsonReader {
 public:
  // The text must outlive it. Begins at byte `at`.
  JsonReader(std::string_view text, JsonSource source, size_t at = 0)
      : text_(text), source_(std::move(source)), at_(at) {}

  size_t at() const { return at_; }
  size_t left() const { return text_.size() - at_; }
  // The next character after white space; '\0' at the end.
  char Peek();
  // Consumes the character if it is next.
  bool Take(char c);
  void Expect(char c);
  // Throws unless only white space is left.
  void ExpectEnd();

  // Reads the next value. Refuses what the format leaves open: strings that are not UTF-8, repeated
  // keys of an object, numbers beyond the range of double, nesting deeper than kMaxJsonDepth, and
  // more values than the source allows.
  Json Value();
  // Reads an object: calls member(key) with the reader before each value. Keys must differ.
  void Object(const std::function<void(const std::string& key)>& member);
  // Reads an array: calls element() for each element, with the reader before it.
  void Array(const std::function<void()>& element);

  // Reads the next string and writes it without escapes to `out`, which must have room for all
  // remaining bytes of the text; returns its length. Raw bytes are not checked to be UTF-8.
  size_t String(char* out);
  // An integer of at most 18 digits.
  int64_t Integer();
  // Skips a value of any kind by its quotes and brackets alone.
  void SkipValue();

  // "name:line:column" of byte `at`.
  std::string Place(size_t at) const;
  [[noreturn]] void Fail(size_t at, const std::string& cause) const;

 private:
  void Deeper();
  std::string Text();
  Json Number();
  bool Digits();
  void SkipString();
  size_t Escape(char* out);
  uint32_t FourHexDigits();

  std::string_view text_;
  JsonSource source_;
  size_t at_;
  int depth_ = 0;
  size_t values_ = 0;  // created so far
};

// Like ParseJson, with a source that says more.
Json ParseJsonFrom(JsonSource source, std::string_view text);

// Appends JSON to a text directly, with the same bytes as Json::dump: for answers with so many
// values that a Json of them would take many times the memory of the text.
//
//   JsonWriter(out).BeginObject().Key("ids").Array(ids).EndObject();
//
// REQUIRES: the calls together write one JSON value.
class JsonWriter {
 public:
  // `out` must outlive it.
  explicit JsonWriter(std::string& out) : out_(out) {}

  JsonWriter& BeginObject() { return Begin('{'); }
  JsonWriter& EndObject() { return End('}'); }
  JsonWriter& BeginArray() { return Begin('['); }
  JsonWriter& EndArray() { return End(']'); }
  // Writes the key of the member whose value follows. Bytes that are not UTF-8 become U+FFFD.
  JsonWriter& Key(std::string_view key);
  JsonWriter& Text(std::string_view text);
  JsonWriter& Value(const Json& value);
  template <std::integral T>
  requires(!std::same_as<T, bool>) JsonWriter& Value(T number) {
    Separate();
    char digits[24];
    out_.append(digits, std::to_chars(digits, digits + sizeof(digits), number).ptr);
    return *this;
  }
  template <class T>
  JsonWriter& Array(std::span<const T> numbers) {
    BeginArray();
    for (const T number : numbers) Value(number);
    return EndArray();
  }

 private:
  JsonWriter& Begin(char bracket);
  JsonWriter& End(char bracket);
  void Separate();

  std::string& out_;
  bool comma_ = false;  // a comma comes before the next item
};

}  // namespace folio
