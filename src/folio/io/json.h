#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace folio {

inline constexpr int kMaxJsonDepth = 64;

// A value is not what its reader takes it for.
class JsonError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A JSON value. An object keeps the order of its members; looking one up goes through them all.
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
  // An object if each value is an array of a text and something else, an array if not.
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
  bool is_number_integer() const;   // of 64 bits, and written without a fraction
  bool is_number_unsigned() const;  // such an integer from 0
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }

  // A bool, an integer of 32 or 64 bits, a double or a std::string. Throws JsonError unless the
  // value is of that type, and an integer one that T holds.
  template <class T>
  T get() const;
  const std::string& text() const;  // throws JsonError

  // The number of elements of an array or members of an object; 0 for anything else.
  size_t size() const;
  bool empty() const { return size() == 0; }
  // The elements of an array; throw JsonError for anything else.
  const Json* begin() const;
  const Json* end() const;
  const Json& at(size_t index) const;
  const Json& operator[](size_t index) const { return at(index); }
  // Null becomes an array.
  void push_back(Json value);

  // The members of an object; throws JsonError for anything else.
  const Object& items() const;
  // The member's value, nullptr if there is none or this is no object.
  const Json* find(std::string_view key) const;
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  const Json& at(std::string_view key) const;  // throws JsonError
  const Json& operator[](std::string_view key) const { return at(key); }
  // Adds a null if there is no such member. Null becomes an object.
  Json& operator[](std::string_view key);
  // Adds a member whose key is known to be new. Null becomes an object.
  Json& Add(std::string key, Json value);
  // Sets all members of `other`.
  void update(const Json& other);

  // 1 and 1.0 are equal; members must be in the same order.
  friend bool operator==(const Json& a, const Json& b);

  // As text: one line if `indent` is negative, else a line for each value, indented by so many
  // spaces for each level. Doubles have digits enough to give them back, and are null where JSON
  // has no such number. Bytes that are not UTF-8 become U+FFFD.
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
// kMaxJsonDepth or has anything behind the value. `line` is that on which the text begins.
Json ParseJson(std::string_view text, const std::string& where, int64_t line = 1);

}  // namespace folio
