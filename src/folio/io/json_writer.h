#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "folio/io/json.h"

namespace folio {

// Appends a JSON string. Bytes that are not UTF-8 become U+FFFD.
void AppendJsonString(std::string_view text, std::string& out);

// Appends JSON to a text as it is said, the same bytes as Json::dump: for answers of so many values
// that a Json of them would be many times their text.
//
//   JsonWriter(out).BeginObject().Key("ids").Array(ids).EndObject();
//
// REQUIRES: what is said in its order is one JSON value.
class JsonWriter {
 public:
  // `out` must outlive it.
  explicit JsonWriter(std::string& out) : out_(out) {}

  JsonWriter& BeginObject() { return Begin('{'); }
  JsonWriter& EndObject() { return End('}'); }
  JsonWriter& BeginArray() { return Begin('['); }
  JsonWriter& EndArray() { return End(']'); }
  // Writes the key of the member whose value follows.
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
  bool comma_ = false;  // before what is next
};

}  // namespace folio
