#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "folio/base/error.h"
#include "folio/io/json.h"

// The language of chat templates: what of Jinja such templates use, as Python's jinja2 renders it.
// A template comes with a model, from whoever made that: it is an untrusted program, which can do
// nothing but make a text, and of which all amounts are bounded.
namespace folio::jinja {

inline constexpr int64_t kMostWork = int64_t{1} << 27;  // units of one rendering: about a second
inline constexpr size_t kWorkOfNode = 32;               // a character is 1 unit
inline constexpr size_t kWorkOfValue = 4;  // that is copied, compared or put into a list
inline constexpr size_t kMostBytes = size_t{1} << 27;  // of the values that there are at a time
inline constexpr size_t kMostCharacters = size_t{1} << 22;  // of one text, so also of the output
inline constexpr int kMostValueDepth = kMaxJsonDepth;       // of lists and mappings in each other
inline constexpr int kMostNesting = 300;  // of statements and expressions, and of their evaluation
inline constexpr int64_t kMostRange = 100000;  // numbers of range(), as in jinja2's sandbox

// The Error of a template, at this line.
Error TemplateError(const std::string& where, int line, const std::string& cause);

// A Meter counts what a rendering does and holds, and knows where in the template it is.
class Meter {
 public:
  explicit Meter(std::string where) : where_(std::move(where)) {}
  Meter(const Meter&) = delete;

  int line = 1;  // that is being evaluated
  // The template wrote a list, a mapping or none as Python writes such values, or arguments that
  // are the text of JSON as a string of JSON: it was meant for another form of them.
  bool wrote_values = false;

  [[noreturn]] void Fail(const std::string& cause) const;
  // These throw where it becomes too much. What is taken is made, which is work too.
  void Work(size_t units);
  void Take(size_t bytes);
  // Looking for a name among so many is work.
  void Look(std::string_view name, size_t among) { Work((1 + name.size() / 16) * (1 + among)); }
  void Give(size_t bytes) { bytes_ -= bytes; }
  const std::string& where() const { return where_; }

 private:
  std::string where_;
  int64_t work_ = 0;
  size_t bytes_ = 0;
};

// The characters of a text with marks, which stay with a character wherever the template takes it;
// what compares characters does not see them. So the one who encodes the output as tokens knows of
// each character who wrote it, whatever the template did: it may trim, split and join what users
// wrote, which a placeholder in its place would not survive.
using Char = char32_t;
inline constexpr Char kGiven = Char{1} << 30;  // by whoever talks to the model, not the template
inline constexpr Char kGenerated = Char{1} << 31;  // between {% generation %} and its end
inline constexpr Char kSaid = Char{1} << 29;       // of what is given: by the assistant
inline constexpr Char kArguments = Char{1} << 28;  // the text that the arguments of a call are
// The number of the message that a character was given in, from 1 on; 0 of none. Above the largest
// it begins with 1 again.
inline constexpr int kMessageShift = 21;
inline constexpr Char kMostMessage = 127;
constexpr Char Code(Char c) {
  return c & 0x1FFFFF;
}
constexpr Char MessageOf(Char c) {
  return c >> kMessageShift & kMostMessage;
}
struct CharTraits : std::char_traits<Char> {
  static constexpr bool eq(Char a, Char b) { return Code(a) == Code(b); }
  static constexpr bool lt(Char a, Char b) { return Code(a) < Code(b); }
  static int compare(const Char* a, const Char* b, size_t length);
  static const Char* find(const Char* text, size_t length, const Char& c);
};
using Text = std::basic_string<Char, CharTraits>;
using TextView = std::basic_string_view<Char, CharTraits>;

// Of UTF-8, with these marks. Bytes that are none stay what they are there and back.
Text FromUtf8(std::string_view text, Char marks = 0);
std::string ToUtf8(TextView text);
bool IsSpace(Char c);  // as Python's str.isspace

// Values hold others by reference, and do not change, namespaces excepted, which no value holds:
// there are no circles.
class Held {
 public:
  // A constant of the template, which has no meter, is none of a rendering.
  Held(Meter* meter, size_t bytes) : meter_(meter), bytes_(bytes + 64) {
    if (meter_ != nullptr) meter_->Take(bytes_);
  }
  Held(const Held&) = delete;
  ~Held() {
    if (meter_ != nullptr) meter_->Give(bytes_);
  }

 private:
  Meter* meter_;
  size_t bytes_;
};

struct TextValue;
struct List;
struct Mapping;
struct Namespace;
struct Node;

struct Undefined {
  std::string_view name = {};  // of what is not there, in the template
};
struct None {};
// A method that is not called: it is defined and true, and that is all.
struct MethodName {
  std::string_view name;
};
enum class Function { kNamespace, kRange, kRaiseException, kStrftimeNow };

using Value = std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const TextValue>,
                           std::shared_ptr<const List>, std::shared_ptr<const Mapping>,
                           std::shared_ptr<Namespace>, const Node*, MethodName, Function>;

struct TextValue : Held {
  TextValue(Meter* meter, Text characters)
      : Held(meter, characters.size() * sizeof(Char)), text(std::move(characters)) {}
  const Text text;
};
// An iterator, which Python's generators are, is true whatever it holds, and has no length.
enum class ListKind { kList, kTuple, kIterator };
struct List : Held {
  List(Meter* meter, std::vector<Value> values, ListKind its_kind, int its_depth)
      : Held(meter, values.size() * sizeof(Value)),
        items(std::move(values)),
        kind(its_kind),
        depth(its_depth) {}
  const std::vector<Value> items;
  const ListKind kind;
  const int depth;
};
using Members = std::vector<std::pair<Value, Value>>;
struct Mapping : Held {
  Mapping(Meter* meter, Members pairs, int its_depth)
      : Held(meter, pairs.size() * sizeof(Members::value_type)),
        members(std::move(pairs)),
        depth(its_depth) {}
  const Members members;  // in the order in which they came, the names distinct
  const int depth;
};
struct Namespace {
  std::optional<Value> Find(Meter& meter, std::string_view name) const;
  void Set(Meter& meter, std::string_view name, Value value);

  std::vector<std::pair<std::string_view, Value>> attributes = {};
};

Value MakeText(Meter& meter, Text text);
Value MakeText(Meter& meter, std::string_view text);
Value MakeList(Meter& meter, std::vector<Value> items, ListKind kind = ListKind::kList);
// Of members with the same name, the place of the first and the value of the last is kept.
Value MakeMapping(Meter& meter, Members members);
// The texts in it, also names of members, get the marks. One that is a member "arguments" has
// kArguments too.
Value FromJson(Meter& meter, const Json& json, Char marks);

// These return null unless the value is of that kind.
const Text* TextOf(const Value& value);
const List* ListOf(const Value& value);
const Mapping* MappingOf(const Value& value);
inline bool IsUndefined(const Value& value) {
  return std::holds_alternative<Undefined>(value);
}

// What the value is, for errors: "a text", "a list", "'tools', which is not defined".
std::string Describe(const Value& value);

bool IsTrue(const Value& value);
bool Equal(Meter& meter, const Value& a, const Value& b);
// Numbers, texts, and lists of these; else an Error.
bool Less(Meter& meter, const Value& a, const Value& b);
// The values that a loop goes through: of a list, the names of a mapping, characters, nothing of
// what is not defined.
std::vector<Value> Elements(Meter& meter, const Value& value);
// The number of these, for what Python's len knows.
int64_t Length(Meter& meter, const Value& value);
// Where `part` begins in `text` at or after `at`; npos if nowhere.
size_t Find(Meter& meter, TextView text, TextView part, size_t at = 0);

// A TextBuilder makes a text of bounded length out of parts.
class TextBuilder {
 public:
  explicit TextBuilder(Meter& meter) : meter_(meter) {}
  TextBuilder(const TextBuilder&) = delete;
  ~TextBuilder() { meter_.Give(text_.size() * sizeof(Char)); }

  TextBuilder& Add(TextView part);
  TextBuilder& Add(std::string_view utf8);
  TextBuilder& Add(const char* utf8) { return Add(std::string_view(utf8)); }
  TextBuilder& Add(Char c) { return Add(TextView(&c, 1)); }
  const Text& text() const { return text_; }
  Value Take() const { return MakeText(meter_, text_); }

 private:
  Meter& meter_;
  Text text_;
};

// As Python's str() writes it; with `quoted` as its repr() does.
void Print(Meter& meter, const Value& value, TextBuilder& out, bool quoted = false);
Text Printed(Meter& meter, const Value& value);

// As Python's json.dumps writes it.
struct JsonStyle {
  bool ascii = false, sorted = false;
  int64_t indent = -1;  // none if negative
  Text comma, colon;
};
void WriteJson(Meter& meter, const Value& value, const JsonStyle& style, TextBuilder& out,
               int64_t depth = 0);

}  // namespace folio::jinja
