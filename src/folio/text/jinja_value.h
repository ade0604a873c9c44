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

// The language of chat templates: the part of Jinja that such templates use, rendered like Python's
// jinja2. A template comes with a model, from its author: it is an untrusted program that can do
// nothing but write a text, and all its resources are bounded.
namespace folio::jinja {

inline constexpr int64_t kMostWork = int64_t{1} << 27;  // units of work: about a second
inline constexpr size_t kWorkOfNode = 32;               // one character is 1 unit
inline constexpr size_t kWorkOfValue = 4;  // of work: copied, compared or put into a list
inline constexpr size_t kMostBytes = size_t{1} << 27;       // for all values that exist at once
inline constexpr size_t kMostCharacters = size_t{1} << 22;  // for one text, including the output
inline constexpr int kMostValueDepth = kMaxJsonDepth;       // for nested lists and mappings
inline constexpr int kMostNesting = 300;  // for statements and expressions, and their evaluation
inline constexpr int64_t kMostRange = 100000;  // of numbers in range(), as in jinja2's sandbox

// The Error of a template at this line.
Error TemplateError(const std::string& where, int line, const std::string& cause);

// Counts the work and memory of a rendering, and knows the current line of the template.
class Meter {
 public:
  explicit Meter(std::string where) : where_(std::move(where)) {}
  Meter(const Meter&) = delete;

  int line = 1;  // that is being evaluated
  // The template wrote a list, a mapping or none as Python's repr, or arguments that are a JSON
  // text as a JSON string: it expects them in another form.
  bool wrote_values = false;

  [[noreturn]] void Fail(const std::string& cause) const;
  // These throw when the limit is exceeded. Allocating counts as work too.
  void Work(size_t units);
  void Take(size_t bytes);
  // Counts the work of a look-up of a name among `among` names.
  void Look(std::string_view name, size_t among) { Work((1 + name.size() / 16) * (1 + among)); }
  void Give(size_t bytes) { bytes_ -= bytes; }
  const std::string& where() const { return where_; }

 private:
  std::string where_;
  int64_t work_ = 0;
  size_t bytes_ = 0;
};

// The characters of a text with marks, which stay with a character through everything that the
// template does; comparisons ignore them. So the encoder of the output knows for each character who
// wrote it, whatever the template did: it may trim, split and join texts of users, which a
// placeholder in their place would not survive.
using Char = char32_t;
inline constexpr Char kGiven = Char{1} << 30;      // by the user of the model, not by the template
inline constexpr Char kGenerated = Char{1} << 31;  // between {% generation %} and its end
inline constexpr Char kSaid = Char{1} << 29;       // of given characters: by the assistant
inline constexpr Char kArguments = Char{1} << 28;  // the text of a call's arguments
// The number of the message that a character came from, from 1 on; 0 for none. Wraps around to 1
// after the largest.
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

// Converts from UTF-8, with these marks. Invalid bytes survive the conversion and back.
Text FromUtf8(std::string_view text, Char marks = 0);
std::string ToUtf8(TextView text);
bool IsSpace(Char c);  // like Python's str.isspace

// Values hold others by reference and do not change, except namespaces, which no value holds: there
// are no cycles.
class Held {
 public:
  // A constant of the template has no meter, and does not count for a rendering.
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
  std::string_view name = {};  // name of the missing thing in the template
};
struct None {};
// A method that is not called: it is only defined and true.
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
// An iterator, such as Python's generators, is always true and has no length.
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
  const Members members;  // in insertion order, with distinct names
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
// If members share a name, the position of the first and the value of the last are kept.
Value MakeMapping(Meter& meter, Members members);
// All texts in it, names of members too, get the marks. A text that is a member "arguments" has
// kArguments too.
Value FromJson(Meter& meter, const Json& json, Char marks);

// These return null unless the value has that kind.
const Text* TextOf(const Value& value);
const List* ListOf(const Value& value);
const Mapping* MappingOf(const Value& value);
inline bool IsUndefined(const Value& value) {
  return std::holds_alternative<Undefined>(value);
}

// The kind of a value for errors: "a text", "a list", "'tools', which is not defined".
std::string Describe(const Value& value);

bool IsTrue(const Value& value);
bool Equal(Meter& meter, const Value& a, const Value& b);
// Compares numbers, texts, and lists of these; throws an Error for others.
bool Less(Meter& meter, const Value& a, const Value& b);
// The values that a loop visits: elements of a list, names of a mapping, characters; none for an
// undefined value.
std::vector<Value> Elements(Meter& meter, const Value& value);
// Their number, for values that Python's len accepts.
int64_t Length(Meter& meter, const Value& value);
// The first place of `part` in `text` at or after `at`; npos if there is none.
size_t Find(Meter& meter, TextView text, TextView part, size_t at = 0);

// Makes a text of bounded length from parts.
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

// Writes like Python's str(); with `quoted` like its repr().
void Print(Meter& meter, const Value& value, TextBuilder& out, bool quoted = false);
Text Printed(Meter& meter, const Value& value);

// Writes like Python's json.dumps.
struct JsonStyle {
  bool ascii = false, sorted = false;
  int64_t indent = -1;  // none if negative
  Text comma, colon;
};
void WriteJson(Meter& meter, const Value& value, const JsonStyle& style, TextBuilder& out,
               int64_t depth = 0);

}  // namespace folio::jinja
