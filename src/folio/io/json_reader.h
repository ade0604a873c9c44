#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "folio/io/json.h"

namespace folio {

// The name and place of a text in errors.
struct JsonSource {
  std::string name;
  int64_t line = 1;  // on which the text begins
  const char* mistake = "not valid JSON";
  const char* help = "mend the file, or copy it again if it should be whole";
  size_t most_values = SIZE_MAX;  // that Value may make of it
};

// Reads JSON (RFC 8259) from left to right: whole values, or only the parts that are asked for
// without building anything, which takes a few milliseconds for a vocabulary of 50,000 tokens. What
// is not as asked for is a kInput Error with line and column.
class JsonReader {
 public:
  // The text must outlive it. Begins at byte `at`.
  JsonReader(std::string_view text, JsonSource source, size_t at = 0)
      : text_(text), source_(std::move(source)), at_(at) {}

  size_t at() const { return at_; }
  size_t left() const { return text_.size() - at_; }
  // The next character behind white space; '\0' at the end.
  char Peek();
  // Takes the character if it is next.
  bool Take(char c);
  void Expect(char c);
  // Throws unless there is nothing but white space to the end.
  void ExpectEnd();

  // The value that is next. Refuses what the format leaves open: strings that are not UTF-8, keys
  // that an object repeats, numbers that no double holds, nesting deeper than kMaxJsonDepth, and
  // more values than the source may have.
  Json Value();
  // Calls member(): the reader stands before the value, `key` is its name, each for one member.
  // Keys must differ.
  void Object(const std::function<void(const std::string& key)>& member);
  // Calls element(): the reader stands before the value, each for one of them.
  void Array(const std::function<void()>& element);

  // Writes the string that is next, without its escapes, to `out`, where there must be room for as
  // many bytes as are left of the text; returns its length. Whether raw bytes are UTF-8 is not
  // looked at.
  size_t String(char* out);
  // An integer of at most 18 digits.
  int64_t Integer();
  // Goes over a value of any kind by its quotes and brackets alone.
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
  size_t values_ = 0;  // made so far
};

// As ParseJson of json.h, of a source that says more of itself.
Json ParseJsonFrom(JsonSource source, std::string_view text);

}  // namespace folio
