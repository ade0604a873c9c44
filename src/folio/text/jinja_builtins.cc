#include "folio/text/jinja_builtins.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <system_error>
#include <utility>

#include "folio/text/unicode.h"

namespace folio::jinja {
namespace {

using Args = std::span<const Value>;

// Texts. Only ASCII letters change case: templates change that of their own words.

Char ToUpper(Char c) {
  return Code(c) >= U'a' && Code(c) <= U'z' ? c - 32 : c;
}
Char ToLower(Char c) {
  return Code(c) >= U'A' && Code(c) <= U'Z' ? c + 32 : c;
}

Text Changed(Text text, Char (*change)(Char)) {
  std::ranges::transform(text, text.begin(), change);
  return text;
}

Text Capitalized(Text text) {
  text = Changed(std::move(text), ToLower);
  if (!text.empty()) text[0] = ToUpper(text[0]);
  return text;
}

// Capitalizes words; `begins_word` returns true if a word begins behind the character.
Text Titled(Text text, bool (*begins_word)(Char before)) {
  bool begins = true;
  for (Char& c : text) {
    const bool next = begins_word(Code(c));
    c = begins ? ToUpper(c) : ToLower(c);
    begins = next;
  }
  return text;
}

bool BeginsWordOfFilter(Char before) {
  return IsSpace(before) || TextView(U"-({[<").find(before) != TextView::npos;
}
bool BeginsWordOfMethod(Char before) {
  return !IsLetter(ClassOf(before));
}

const Text& TextFor(Meter& meter, const Value& value, std::string_view what) {
  const Text* text = TextOf(value);
  if (text == nullptr)
    meter.Fail(fmt::format("{} must be a string, not {}", what, Describe(value)));
  return *text;
}

bool Given(const Value& value) {
  return !IsUndefined(value) && !std::holds_alternative<None>(value);
}

int64_t IntegerOr(Meter& meter, const Value& value, std::string_view what, int64_t otherwise) {
  return Given(value) ? IntegerFor(meter, value, what) : otherwise;
}

TextView Stripped(Meter& meter, TextView text, const Value& chars, bool left, bool right) {
  const Text* set = Given(chars) ? &TextFor(meter, chars, "what is stripped") : nullptr;
  const auto goes = [&](Char c) {
    meter.Work(set == nullptr ? 1 : set->size());
    return set == nullptr ? IsSpace(c) : set->find(c) != Text::npos;
  };
  while (left && !text.empty() && goes(text.front())) text.remove_prefix(1);
  while (right && !text.empty() && goes(text.back())) text.remove_suffix(1);
  return text;
}

Value Replaced(Meter& meter, const Text& text, const Text& before, const Text& after,
               int64_t count) {
  TextBuilder out(meter);
  size_t at = 0;
  for (; count != 0; --count) {
    // An empty text is found before every character, and at the end.
    const size_t found = Find(meter, text, before, at);
    if (found == Text::npos) break;
    out.Add(TextView(text).substr(at, found - at)).Add(after);
    at = found + before.size();
    if (!before.empty()) continue;
    if (at == text.size()) return out.Take();
    out.Add(text[at++]);
  }
  return out.Add(TextView(text).substr(at)).Take();
}

Value SplitText(Meter& meter, const Text& text, const Value& separator, int64_t most) {
  std::vector<Value> parts;
  TextView rest = text;
  if (Given(separator)) {
    const Text& between = TextFor(meter, separator, "what is between the parts");
    if (between.empty()) meter.Fail("split: the separator is empty");
    for (; most != 0; --most) {
      const size_t found = Find(meter, rest, between);
      if (found == Text::npos) break;
      parts.push_back(MakeText(meter, Text(rest.substr(0, found))));
      rest.remove_prefix(found + between.size());
    }
    parts.push_back(MakeText(meter, Text(rest)));
    return MakeList(meter, std::move(parts));
  }
  for (;; --most) {
    rest = Stripped(meter, rest, None{}, true, false);
    if (rest.empty()) break;
    size_t end = 0;
    while (end < rest.size() && (most == 0 || !IsSpace(rest[end]))) ++end;
    parts.push_back(MakeText(meter, Text(rest.substr(0, end))));
    rest.remove_prefix(end);
    if (most == 0) break;
  }
  return MakeList(meter, std::move(parts));
}

// Returns true if a part fits, of a text or a tuple: startswith and endswith take either.
template <class Fits>
Value AnyText(Meter& meter, const Value& value, const Fits& fits) {
  const List* list = ListOf(value);
  if (list == nullptr || list->kind != ListKind::kTuple)
    return fits(TextFor(meter, value, "what is looked for"));
  meter.Work(kWorkOfValue * list->items.size());
  return std::ranges::any_of(list->items, [&](const Value& one) {
    return fits(TextFor(meter, one, "what is looked for"));
  });
}

Value Indented(Meter& meter, const Text& text, Args args) {
  Text indent;
  if (const Text* given = TextOf(args[0])) {
    indent = *given;
  } else {
    const int64_t width = IntegerOr(meter, args[0], "indent's width", 4);
    if (width > 1000) meter.Fail("indent: a width beyond 1000");
    indent = Text(static_cast<size_t>(std::max<int64_t>(width, 0)), U' ');
  }
  TextBuilder out(meter);
  bool first = true;
  for (size_t at = 0; at <= text.size(); first = false) {
    const size_t end = std::min(text.find(U'\n', at), text.size());
    if (!first) out.Add(U'\n');
    if (first ? IsTrue(args[1]) : end > at || IsTrue(args[2])) out.Add(indent);
    out.Add(TextView(text).substr(at, end - at));
    at = end + 1;
  }
  return out.Take();
}

// {} and {0}, which templates fill in for names of tokens.
Value Formatted(Meter& meter, const Text& format, Args args) {
  TextBuilder out(meter);
  size_t next = 0;
  for (size_t at = 0; at < format.size(); ++at) {
    const Char c = Code(format[at]), after = at + 1 < format.size() ? Code(format[at + 1]) : 0;
    if (c != U'{' && c != U'}') {
      out.Add(format[at]);
    } else if (c == after) {
      out.Add(format[at++]);
    } else if (c == U'{' && after == U'}' && next < args.size() && !IsUndefined(args[next])) {
      Print(meter, args[next++], out);
      ++at;
    } else {
      meter.Fail("format: only {} is supported, one for each argument");
    }
  }
  return out.Take();
}

// Numbers.

template <class T>
std::optional<T> ParsedNumber(const Value& value) {
  const Text* text = TextOf(value);
  if (text == nullptr) return std::nullopt;
  std::string digits;
  for (const Char c : *text) {
    if (digits.size() > 400) return std::nullopt;
    if (!IsSpace(c)) digits += Code(c) < 0x80 ? static_cast<char>(Code(c)) : '?';
  }
  const size_t plus = digits.starts_with('+') ? 1 : 0;
  T number{};
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data() + plus, end, number);
  return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

Value ToInteger(const Value& value, const Value& otherwise) {
  if (const bool* truth = std::get_if<bool>(&value)) return int64_t{*truth};
  if (std::holds_alternative<int64_t>(value)) return value;
  if (const auto integer = ParsedNumber<int64_t>(value)) return *integer;
  std::optional<double> number = ParsedNumber<double>(value);
  if (const double* given = std::get_if<double>(&value)) number = *given;
  if (number && std::abs(*number) < 9e18) return static_cast<int64_t>(*number);
  return IsUndefined(otherwise) ? Value(int64_t{0}) : otherwise;
}

Value ToFloat(const Value& value, const Value& otherwise) {
  if (const bool* truth = std::get_if<bool>(&value)) return *truth ? 1.0 : 0.0;
  if (const int64_t* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
  if (std::holds_alternative<double>(value)) return value;
  if (const auto number = ParsedNumber<double>(value)) return *number;
  return IsUndefined(otherwise) ? Value(0.0) : otherwise;
}

// Lists.

// The value at a path, "function.name"; the value itself if the path is empty.
Value AtPath(Meter& meter, Value value, const Value& path, const Value& otherwise = Undefined{}) {
  if (!Given(path)) return value;
  const Text* text = TextOf(path);
  if (text == nullptr) return Item(meter, value, path);
  for (size_t at = 0; at <= text->size();) {
    const size_t end = std::min(text->find(U'.', at), text->size());
    const Value part = MakeText(meter, text->substr(at, end - at));
    const auto index = ParsedNumber<int64_t>(part);
    value = Item(meter, value, index ? Value(*index) : part);
    if (IsUndefined(value)) value = otherwise;
    at = end + 1;
  }
  return value;
}

// A value for comparison: in lower case where case does not matter.
Value Comparable(Meter& meter, const Value& value, bool case_sensitive) {
  const Text* text = TextOf(value);
  if (text == nullptr || case_sensitive) return value;
  return MakeText(meter, Changed(*text, ToLower));
}

// Elements with their keys for comparison.
std::vector<std::pair<Value, Value>> Keyed(Meter& meter, const Value& subject,
                                           const Value& case_sensitive, const Value& path) {
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& element : Elements(meter, subject)) {
    meter.Work(2 * kWorkOfValue);  // they are moved too
    Value key = Comparable(meter, AtPath(meter, element, path), IsTrue(case_sensitive));
    keyed.emplace_back(std::move(key), std::move(element));
  }
  return keyed;
}

Value Sorted(Meter& meter, std::vector<std::pair<Value, Value>> keyed, bool reverse) {
  std::ranges::stable_sort(keyed, [&](const auto& a, const auto& b) {
    return reverse ? Less(meter, b.first, a.first) : Less(meter, a.first, b.first);
  });
  std::vector<Value> sorted;
  for (auto& [key, element] : keyed) sorted.push_back(std::move(element));
  return MakeList(meter, std::move(sorted));
}

Value Extreme(Meter& meter, const Value& subject, Args args, bool most) {
  const auto keyed = Keyed(meter, subject, args[0], args[1]);
  size_t best = 0;
  for (size_t i = 1; i < keyed.size(); ++i) {
    const Value &one = keyed[i].first, &other = keyed[best].first;
    if (most ? Less(meter, other, one) : Less(meter, one, other)) best = i;
  }
  return keyed.empty() ? Value(Undefined{}) : keyed[best].second;
}

// The elements, none for a false value: jinja2 does not look into those here.
std::vector<Value> ElementsIfAny(Meter& meter, const Value& value) {
  return IsTrue(value) ? Elements(meter, value) : std::vector<Value>();
}

// The elements whose attribute at `path` passes the test, or is true if no test is named.
Value Selected(Meter& meter, const Value& subject, const Value& path, Args test, bool passes) {
  const Builtin* by = nullptr;
  if (Given(test[0])) {
    const Text& name = TextFor(meter, test[0], "the name of a test");
    by = FindTest(ToUtf8(name));
    if (by == nullptr) meter.Fail(fmt::format("the test `{}` is not supported", ToUtf8(name)));
  }
  const Args argument = test.subspan(1, IsUndefined(test[1]) ? 0 : 1);
  std::vector<Value> selected;
  for (const Value& element : ElementsIfAny(meter, subject)) {
    const Value value = AtPath(meter, element, path);
    const bool passed = IsTrue(by == nullptr ? value : CallBuiltin(meter, *by, value, argument));
    if (passed == passes) selected.push_back(element);
  }
  return MakeList(meter, std::move(selected), ListKind::kIterator);
}

Value Mapped(Meter& meter, const Value& subject, Args args) {
  const Builtin* by = nullptr;
  if (Given(args[0])) {
    const Text& name = TextFor(meter, args[0], "the name of a filter");
    by = FindFilter(ToUtf8(name));
    if (by == nullptr) meter.Fail(fmt::format("the filter `{}` is not supported", ToUtf8(name)));
  }
  if ((by == nullptr) != Given(args[1])) meter.Fail("map: requires a filter or an attribute");
  std::vector<Value> mapped;
  for (const Value& element : ElementsIfAny(meter, subject)) {
    mapped.push_back(by == nullptr ? AtPath(meter, element, args[1], args[2])
                                   : CallBuiltin(meter, *by, element, {}));
  }
  return MakeList(meter, std::move(mapped), ListKind::kIterator);
}

Value Joined(Meter& meter, const Value& subject, const Text& between, const Value& path) {
  TextBuilder out(meter);
  bool first = true;
  for (const Value& element : Elements(meter, subject)) {
    if (!std::exchange(first, false)) out.Add(between);
    Print(meter, AtPath(meter, element, path), out);
  }
  return out.Take();
}

Value Unique(Meter& meter, const Value& subject, Args args) {
  std::vector<Value> seen, unique;
  for (auto& [key, element] : Keyed(meter, subject, args[0], args[1])) {
    const auto same = [&, &mine = key](const Value& one) { return Equal(meter, one, mine); };
    if (std::ranges::any_of(seen, same)) continue;
    seen.push_back(key);
    unique.push_back(element);
  }
  return MakeList(meter, std::move(unique), ListKind::kIterator);
}

Value Reversed(Meter& meter, const Value& subject) {
  if (const Text* text = TextOf(subject))
    return MakeText(meter, Text(text->rbegin(), text->rend()));
  std::vector<Value> elements = Elements(meter, subject);
  std::ranges::reverse(elements);
  return MakeList(meter, std::move(elements), ListKind::kIterator);
}

Value Pairs(Meter& meter, const Value& subject) {
  const Mapping* mapping = MappingOf(subject);
  std::vector<Value> pairs;
  if (mapping == nullptr && !IsUndefined(subject)) {
    meter.Fail(Describe(subject) + " has no members");
  }
  if (mapping != nullptr) {
    for (const auto& [name, value] : mapping->members) {
      pairs.push_back(MakeList(meter, {name, value}, ListKind::kTuple));
    }
  }
  return MakeList(meter, std::move(pairs));
}

Value SortedPairs(Meter& meter, const Value& subject, Args args) {
  const std::string by =
      Given(args[1]) ? ToUtf8(TextFor(meter, args[1], "dictsort's `by`")) : "key";
  if (by != "key" && by != "value") meter.Fail("dictsort: by \"key\" or \"value\"");
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& pair : Elements(meter, Pairs(meter, subject))) {
    const Value& key = ListOf(pair)->items[by == "key" ? 0 : 1];
    keyed.emplace_back(Comparable(meter, key, IsTrue(args[0])), std::move(pair));
  }
  return Sorted(meter, std::move(keyed), IsTrue(args[2]));
}

Value AsJson(Meter& meter, const Value& subject, Args args) {
  JsonStyle style;
  style.ascii = IsTrue(args[0]);
  style.sorted = IsTrue(args[3]);
  style.indent = std::min<int64_t>(IntegerOr(meter, args[1], "tojson's indent", -1), 100);
  style.comma = style.indent < 0 ? U", " : U",";
  style.colon = U": ";
  if (Given(args[2])) {
    const List* separators = ListOf(args[2]);
    if (separators == nullptr || separators->items.size() != 2) {
      meter.Fail("tojson: `separators` must be two strings");
    }
    style.comma = TextFor(meter, separators->items[0], "a separator");
    style.colon = TextFor(meter, separators->items[1], "a separator");
    meter.Work(style.comma.size() + style.colon.size());
  }
  TextBuilder out(meter);
  WriteJson(meter, subject, style, out);
  return out.Take();
}

Value FirstOf(Meter& meter, const Value& subject, bool last) {
  const std::vector<Value> elements = Elements(meter, subject);
  if (elements.empty()) return Undefined{};
  return last ? elements.back() : elements.front();
}

bool Holds(Meter& meter, const Value& container, const Value& value) {
  if (const Text* text = TextOf(container)) {
    return Find(meter, *text, TextFor(meter, value, "what is looked for in a text")) != Text::npos;
  }
  return std::ranges::any_of(Elements(meter, container),
                             [&](const Value& one) { return Equal(meter, one, value); });
}

template <class... Ts>
bool IsAny(const Value& value) {
  return (std::holds_alternative<Ts>(value) || ...);
}

bool IsIterable(const Value& value) {
  return TextOf(value) != nullptr || ListOf(value) != nullptr || MappingOf(value) != nullptr ||
         IsUndefined(value);
}

// The lists of filters, tests and methods. A row has a name, the arguments, the function, and the
// number of required arguments.

const std::vector<Builtin>& Filters() {
  static const auto length = [](const BuiltinCall& c) -> Value {
    return Length(c.meter, c.subject);
  };
  static const auto otherwise = [](const BuiltinCall& c) -> Value {
    const bool missing = IsUndefined(c.subject) || (IsTrue(c.args[1]) && !IsTrue(c.subject));
    if (!missing) return c.subject;
    return IsUndefined(c.args[0]) ? MakeText(c.meter, Text()) : c.args[0];
  };
  static const std::vector<Builtin> filters = {
      {"trim",
       {"chars"},
       [](const BuiltinCall& c) -> Value {
         const Text text = Printed(c.meter, c.subject);
         return MakeText(c.meter, Text(Stripped(c.meter, text, c.args[0], true, true)));
       }},
      {"length", {}, length},
      {"count", {}, length},
      {"tojson",
       {"ensure_ascii", "indent", "separators", "sort_keys"},
       [](const BuiltinCall& c) { return AsJson(c.meter, c.subject, c.args); }},
      {"default", {"default_value", "boolean"}, otherwise},
      {"d", {"default_value", "boolean"}, otherwise},
      {"upper",
       {},
       [](const BuiltinCall& c) {
         return MakeText(c.meter, Changed(Printed(c.meter, c.subject), ToUpper));
       }},
      {"lower",
       {},
       [](const BuiltinCall& c) {
         return MakeText(c.meter, Changed(Printed(c.meter, c.subject), ToLower));
       }},
      {"title",
       {},
       [](const BuiltinCall& c) {
         return MakeText(c.meter, Titled(Printed(c.meter, c.subject), BeginsWordOfFilter));
       }},
      {"capitalize",
       {},
       [](const BuiltinCall& c) {
         return MakeText(c.meter, Capitalized(Printed(c.meter, c.subject)));
       }},
      {"join",
       {"d", "attribute"},
       [](const BuiltinCall& c) {
         return Joined(c.meter, c.subject, Printed(c.meter, c.args[0]), c.args[1]);
       }},
      {"first", {}, [](const BuiltinCall& c) { return FirstOf(c.meter, c.subject, false); }},
      {"last", {}, [](const BuiltinCall& c) { return FirstOf(c.meter, c.subject, true); }},
      {"list",
       {},
       [](const BuiltinCall& c) { return MakeList(c.meter, Elements(c.meter, c.subject)); }},
      {"items", {}, [](const BuiltinCall& c) { return Pairs(c.meter, c.subject); }},
      {"map",
       {"filter", "attribute", "default"},
       [](const BuiltinCall& c) { return Mapped(c.meter, c.subject, c.args); }},
      {"select",
       {"test", "argument"},
       [](const BuiltinCall& c) { return Selected(c.meter, c.subject, None{}, c.args, true); }},
      {"reject",
       {"test", "argument"},
       [](const BuiltinCall& c) { return Selected(c.meter, c.subject, None{}, c.args, false); }},
      {"selectattr",
       {"attribute", "test", "argument"},
       [](const BuiltinCall& c) {
         return Selected(c.meter, c.subject, c.args[0], c.args.subspan(1), true);
       },
       1},
      {"rejectattr",
       {"attribute", "test", "argument"},
       [](const BuiltinCall& c) {
         return Selected(c.meter, c.subject, c.args[0], c.args.subspan(1), false);
       },
       1},
      {"replace",
       {"old", "new", "count"},
       [](const BuiltinCall& c) {
         return Replaced(c.meter, Printed(c.meter, c.subject), Printed(c.meter, c.args[0]),
                         Printed(c.meter, c.args[1]), IntegerOr(c.meter, c.args[2], "a count", -1));
       },
       2},
      {"safe",
       {},
       [](const BuiltinCall& c) { return MakeText(c.meter, Printed(c.meter, c.subject)); }},
      {"string",
       {},
       [](const BuiltinCall& c) { return MakeText(c.meter, Printed(c.meter, c.subject)); }},
      {"int", {"default"}, [](const BuiltinCall& c) { return ToInteger(c.subject, c.args[0]); }},
      {"float", {"default"}, [](const BuiltinCall& c) { return ToFloat(c.subject, c.args[0]); }},
      {"unique",
       {"case_sensitive", "attribute"},
       [](const BuiltinCall& c) { return Unique(c.meter, c.subject, c.args); }},
      {"reverse", {}, [](const BuiltinCall& c) { return Reversed(c.meter, c.subject); }},
      {"sort",
       {"reverse", "case_sensitive", "attribute"},
       [](const BuiltinCall& c) {
         return Sorted(c.meter, Keyed(c.meter, c.subject, c.args[1], c.args[2]), IsTrue(c.args[0]));
       }},
      {"dictsort",
       {"case_sensitive", "by", "reverse"},
       [](const BuiltinCall& c) { return SortedPairs(c.meter, c.subject, c.args); }},
      {"min",
       {"case_sensitive", "attribute"},
       [](const BuiltinCall& c) { return Extreme(c.meter, c.subject, c.args, false); }},
      {"max",
       {"case_sensitive", "attribute"},
       [](const BuiltinCall& c) { return Extreme(c.meter, c.subject, c.args, true); }},
      {"indent", {"width", "first", "blank"}, [](const BuiltinCall& c) {
         return Indented(c.meter, Printed(c.meter, c.subject), c.args);
       }}};
  return filters;
}

const std::vector<Builtin>& Tests() {
  static const auto equal = [](const BuiltinCall& c) -> Value {
    return Equal(c.meter, c.subject, c.args[0]);
  };
  static const auto differs = [](const BuiltinCall& c) -> Value {
    return !Equal(c.meter, c.subject, c.args[0]);
  };
  static const std::vector<Builtin> tests = {
      {"defined", {}, [](const BuiltinCall& c) -> Value { return !IsUndefined(c.subject); }},
      {"undefined", {}, [](const BuiltinCall& c) -> Value { return IsUndefined(c.subject); }},
      {"none", {}, [](const BuiltinCall& c) -> Value { return IsAny<None>(c.subject); }},
      {"string", {}, [](const BuiltinCall& c) -> Value { return TextOf(c.subject) != nullptr; }},
      {"mapping",
       {},
       [](const BuiltinCall& c) -> Value { return MappingOf(c.subject) != nullptr; }},
      {"iterable", {}, [](const BuiltinCall& c) -> Value { return IsIterable(c.subject); }},
      {"sequence",
       {},
       [](const BuiltinCall& c) -> Value {
         const List* list = ListOf(c.subject);
         return IsIterable(c.subject) && (list == nullptr || list->kind != ListKind::kIterator);
       }},
      {"number",
       {},
       [](const BuiltinCall& c) -> Value { return IsAny<bool, int64_t, double>(c.subject); }},
      {"integer", {}, [](const BuiltinCall& c) -> Value { return IsAny<int64_t>(c.subject); }},
      {"float", {}, [](const BuiltinCall& c) -> Value { return IsAny<double>(c.subject); }},
      {"boolean", {}, [](const BuiltinCall& c) -> Value { return IsAny<bool>(c.subject); }},
      {"true",
       {},
       [](const BuiltinCall& c) -> Value {
         return IsAny<bool>(c.subject) && std::get<bool>(c.subject);
       }},
      {"false",
       {},
       [](const BuiltinCall& c) -> Value {
         return IsAny<bool>(c.subject) && !std::get<bool>(c.subject);
       }},
      {"in",
       {"seq"},
       [](const BuiltinCall& c) -> Value { return Holds(c.meter, c.args[0], c.subject); },
       1},
      {"equalto", {"b"}, equal, 1},
      {"eq", {"b"}, equal, 1},
      {"==", {"b"}, equal, 1},
      {"ne", {"b"}, differs, 1},
      {"!=", {"b"}, differs, 1}};
  return tests;
}

const std::vector<Builtin>& TextMethods() {
  static const std::vector<Builtin> methods = {
      {"startswith",
       {"prefix"},
       [](const BuiltinCall& c) {
         return AnyText(c.meter, c.args[0],
                        [&](const Text& one) { return TextOf(c.subject)->starts_with(one); });
       },
       1},
      {"endswith",
       {"suffix"},
       [](const BuiltinCall& c) {
         return AnyText(c.meter, c.args[0],
                        [&](const Text& one) { return TextOf(c.subject)->ends_with(one); });
       },
       1},
      {"split",
       {"sep", "maxsplit"},
       [](const BuiltinCall& c) {
         return SplitText(c.meter, *TextOf(c.subject), c.args[0],
                          IntegerOr(c.meter, c.args[1], "maxsplit", -1));
       }},
      {"strip",
       {"chars"},
       [](const BuiltinCall& c) {
         return MakeText(c.meter,
                         Text(Stripped(c.meter, *TextOf(c.subject), c.args[0], true, true)));
       }},
      {"lstrip",
       {"chars"},
       [](const BuiltinCall& c) {
         return MakeText(c.meter,
                         Text(Stripped(c.meter, *TextOf(c.subject), c.args[0], true, false)));
       }},
      {"rstrip",
       {"chars"},
       [](const BuiltinCall& c) {
         return MakeText(c.meter,
                         Text(Stripped(c.meter, *TextOf(c.subject), c.args[0], false, true)));
       }},
      {"upper",
       {},
       [](const BuiltinCall& c) {
         return MakeText(c.meter, Changed(*TextOf(c.subject), ToUpper));
       }},
      {"lower",
       {},
       [](const BuiltinCall& c) {
         return MakeText(c.meter, Changed(*TextOf(c.subject), ToLower));
       }},
      {"title",
       {},
       [](const BuiltinCall& c) {
         return MakeText(c.meter, Titled(*TextOf(c.subject), BeginsWordOfMethod));
       }},
      {"capitalize",
       {},
       [](const BuiltinCall& c) { return MakeText(c.meter, Capitalized(*TextOf(c.subject))); }},
      {"replace",
       {"old", "new", "count"},
       [](const BuiltinCall& c) {
         return Replaced(c.meter, *TextOf(c.subject),
                         TextFor(c.meter, c.args[0], "what is replaced"),
                         TextFor(c.meter, c.args[1], "what replaces it"),
                         IntegerOr(c.meter, c.args[2], "a count", -1));
       },
       2},
      {"find",
       {"sub"},
       [](const BuiltinCall& c) -> Value {
         const size_t at =
             Find(c.meter, *TextOf(c.subject), TextFor(c.meter, c.args[0], "what is looked for"));
         return at == Text::npos ? int64_t{-1} : static_cast<int64_t>(at);
       },
       1},
      {"join",
       {"iterable"},
       [](const BuiltinCall& c) { return Joined(c.meter, c.args[0], *TextOf(c.subject), None{}); },
       1},
      {"format", {"1", "2", "3"}, [](const BuiltinCall& c) {
         return Formatted(c.meter, *TextOf(c.subject), c.args);
       }}};
  return methods;
}

const std::vector<Builtin>& MappingMethods() {
  static const std::vector<Builtin> methods = {
      {"get",
       {"key", "default"},
       [](const BuiltinCall& c) -> Value {
         for (const auto& [name, value] : MappingOf(c.subject)->members) {
           if (Equal(c.meter, name, c.args[0])) return value;
         }
         return IsUndefined(c.args[1]) ? Value(None{}) : c.args[1];
       },
       1},
      {"items", {}, [](const BuiltinCall& c) { return Pairs(c.meter, c.subject); }},
      {"keys",
       {},
       [](const BuiltinCall& c) { return MakeList(c.meter, Elements(c.meter, c.subject)); }},
      {"values", {}, [](const BuiltinCall& c) {
         std::vector<Value> values;
         for (const auto& [name, value] : MappingOf(c.subject)->members) values.push_back(value);
         return MakeList(c.meter, std::move(values));
       }}};
  return methods;
}

const Builtin* FindIn(const std::vector<Builtin>& builtins, std::string_view name) {
  const auto found = std::ranges::find(builtins, name, &Builtin::name);
  return found == builtins.end() ? nullptr : &*found;
}

// Methods that Python finds on a mapping or a list before members of that name. jinja2's sandbox
// also refuses those that change the object.
constexpr std::array<std::string_view, 11> kMappingNames = {
    "clear", "copy",    "fromkeys",   "get",    "items", "keys",
    "pop",   "popitem", "setdefault", "update", "values"};
constexpr std::array<std::string_view, 11> kListNames = {"append", "clear",   "copy",   "count",
                                                         "extend", "index",   "insert", "pop",
                                                         "remove", "reverse", "sort"};

// The method of that name as a value, if there is one.
Value MethodOf(const Value& object, std::string_view name) {
  if (const Builtin* method = FindMethod(object, name)) return MethodName{method->name};
  const auto in = [&](const auto& names) -> Value {
    const auto found = std::ranges::find(names, name);
    return found == names.end() ? Value(Undefined{}) : MethodName{*found};
  };
  if (MappingOf(object) != nullptr) return in(kMappingNames);
  return ListOf(object) != nullptr ? in(kListNames) : Value(Undefined{});
}

std::optional<Value> MemberOf(Meter& meter, const Value& object, const Value& key) {
  for (const auto& [name, value] : MappingOf(object)->members) {
    if (Equal(meter, name, key)) return value;
  }
  return std::nullopt;
}

}  // namespace

const Builtin* FindFilter(std::string_view name) {
  return FindIn(Filters(), name);
}

const Builtin* FindTest(std::string_view name) {
  return FindIn(Tests(), name);
}

const Builtin* FindMethod(const Value& object, std::string_view name) {
  if (TextOf(object) != nullptr) return FindIn(TextMethods(), name);
  return MappingOf(object) != nullptr ? FindIn(MappingMethods(), name) : nullptr;
}

Value CallBuiltin(Meter& meter, const Builtin& builtin, const Value& subject,
                  std::span<const Value> args, std::span<const std::string> names) {
  std::vector<Value> bound(builtin.parameters.size());
  const size_t unnamed = args.size() - names.size();
  if (unnamed > bound.size()) {
    meter.Fail(fmt::format("`{}` takes at most {} arguments", builtin.name, bound.size()));
  }
  std::ranges::copy(args.first(unnamed), bound.begin());
  size_t given = unnamed;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto found = std::ranges::find(builtin.parameters, names[i]);
    if (found == builtin.parameters.end()) {
      meter.Fail(fmt::format("`{}` has no argument `{}`", builtin.name, names[i]));
    }
    const auto at = static_cast<size_t>(found - builtin.parameters.begin());
    bound[at] = args[unnamed + i];
    given = std::max(given, at + 1);
  }
  if (given < builtin.needed) {
    meter.Fail(fmt::format("`{}` requires {} arguments", builtin.name, builtin.needed));
  }
  // A filter that visits a text or a list may do so more often than it reports.
  meter.Work(kWorkOfNode + (TextOf(subject) == nullptr ? 0 : TextOf(subject)->size()));
  return builtin.run({meter, subject, bound});
}

Value Attribute(Meter& meter, const Value& object, std::string_view name) {
  if (IsUndefined(object)) {
    meter.Fail(fmt::format("{} has no attribute '{}'", Describe(object), name));
  }
  if (const auto* space = std::get_if<std::shared_ptr<Namespace>>(&object)) {
    return (*space)->Find(meter, name).value_or(Undefined{name});
  }
  meter.Work(name.size());
  Value method = MethodOf(object, name);
  if (!IsUndefined(method)) return method;
  if (MappingOf(object) == nullptr) return Undefined{name};
  return MemberOf(meter, object, MakeText(meter, name)).value_or(Undefined{name});
}

Value Item(Meter& meter, const Value& object, const Value& key) {
  if (IsUndefined(object)) meter.Fail(Describe(object) + " has no elements");
  if (MappingOf(object) != nullptr) {
    if (std::optional<Value> member = MemberOf(meter, object, key)) return *std::move(member);
  }
  const List* list = ListOf(object);
  const Text* text = TextOf(object);
  if (const int64_t* index = std::get_if<int64_t>(&key); index != nullptr && (list || text)) {
    const int64_t length = list != nullptr ? std::ssize(list->items) : std::ssize(*text);
    const int64_t at = *index < 0 ? *index + length : *index;
    if (at < 0 || at >= length) return Undefined{};
    if (list != nullptr) return list->items[static_cast<size_t>(at)];
    return MakeText(meter, text->substr(static_cast<size_t>(at), 1));
  }
  const Text* name = TextOf(key);
  if (name == nullptr) return Undefined{};
  meter.Work(name->size());
  if (const auto* space = std::get_if<std::shared_ptr<Namespace>>(&object)) {
    return (*space)->Find(meter, ToUtf8(*name)).value_or(Undefined{});
  }
  return MethodOf(object, ToUtf8(*name));
}

Value Slice(Meter& meter, const Value& object, const Value& begin, const Value& end,
            const Value& step) {
  const List* list = ListOf(object);
  const Text* text = TextOf(object);
  const bool iterator = list != nullptr && list->kind == ListKind::kIterator;
  if (iterator || (list == nullptr && text == nullptr)) {
    meter.Fail(Describe(object) + " cannot be sliced");
  }
  const int64_t length = list != nullptr ? std::ssize(list->items) : std::ssize(*text);
  const int64_t by = IntegerOr(meter, step, "a step", 1);
  if (by == 0) meter.Fail("the step of a slice is 0");
  // Begin and end may be from `low` to `high` inclusive.
  const int64_t low = by < 0 ? -1 : 0, high = by < 0 ? length - 1 : length;
  const auto place = [&](const Value& value, int64_t otherwise) {
    if (!Given(value)) return otherwise;
    const int64_t at = IntegerFor(meter, value, "a slice's place");
    return std::clamp(at < 0 ? at + length : at, low, high);
  };
  const int64_t from = place(begin, by < 0 ? high : low), to = place(end, by < 0 ? low : high);
  const int64_t distance = by < 0 ? from - to : to - from;
  const uint64_t stride =
      by < 0 ? uint64_t{0} - static_cast<uint64_t>(by) : static_cast<uint64_t>(by);
  const uint64_t count = distance <= 0 ? 0 : (static_cast<uint64_t>(distance) - 1) / stride + 1;
  meter.Work(count);
  std::vector<Value> items;
  Text characters;
  for (uint64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(from + static_cast<int64_t>(i) * by);
    if (list != nullptr) {
      items.push_back(list->items[at]);
    } else {
      characters += (*text)[at];
    }
  }
  if (text != nullptr) return MakeText(meter, std::move(characters));
  return MakeList(meter, std::move(items), list->kind);
}

int64_t IntegerFor(Meter& meter, const Value& value, std::string_view what) {
  if (const bool* truth = std::get_if<bool>(&value)) return *truth ? 1 : 0;
  const int64_t* integer = std::get_if<int64_t>(&value);
  if (integer == nullptr) {
    meter.Fail(fmt::format("{} must be an integer, not {}", what, Describe(value)));
  }
  return *integer;
}

}  // namespace folio::jinja
