#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace folio {

// Reads the parts of JSON that vocabularies are made of (RFC 8259), from left to right, without
// building anything: a vocabulary of 50,000 tokens takes a few milliseconds. What is not as asked
// for is a kInput Error with line and column in `where`.
class JsonScanner {
 public:
  // Both must outlive it. Begins at byte `at`.
  JsonScanner(std::string_view text, const std::string& where, size_t at = 0)
      : text_(text), where_(where), at_(at) {}

  size_t at() const { return at_; }
  size_t left() const { return text_.size() - at_; }
  // The next character behind white space; '\0' at the end.
  char Peek();
  // Takes the character if it is next.
  bool Take(char c);
  void Expect(char c);
  // Throws unless there is nothing but white space to the end.
  void ExpectEnd();

  // Writes the string that is next, without its escapes, to `out`, where there must be room for as
  // many bytes as are left of the text; returns its length. Whether raw bytes are UTF-8 is not
  // looked at.
  size_t String(char* out);
  // An integer of at most 18 digits.
  int64_t Integer();
  // Goes over a value of any kind by its quotes and brackets alone.
  void SkipValue();

  // Calls member(): the scanner stands before the value, `key` is its name, each for one member.
  void Object(const std::function<void(const std::string& key)>& member);

  // "where:line:column" of byte `at`.
  std::string Place(size_t at) const;
  [[noreturn]] void Fail(size_t at, const std::string& cause) const;

 private:
  size_t Escape(char* out);
  uint32_t FourHexDigits();

  std::string_view text_;
  const std::string& where_;
  size_t at_;
};

// The members of a JSON object from name to id.
struct NamedIds {
  struct Entry {
    uint32_t begin = 0;
    uint32_t length = 0;
    int32_t id = 0;
  };
  std::unique_ptr<char[]> names;
  std::vector<Entry> entries;  // in the order of the text

  std::string_view name(const Entry& entry) const {
    return {names.get() + entry.begin, entry.length};
  }
};

// Reads the object that is next. Names and ids may repeat, names be empty; ids are not negative.
// Throws a kInput Error also where the text is longer than 4 GB or an id does not fit.
NamedIds ScanNamedIds(JsonScanner& scanner);

}  // namespace folio
