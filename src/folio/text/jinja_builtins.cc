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

template <Char (*kChange)(Char)>
Value InCase(const BuiltinCall& c) {
  return MakeText(c.meter, Changed(Printed(c.meter, c.subject), kChange));
}

Value Capitalized(const BuiltinCall& c) {
  Text text = Changed(Printed(c.meter, c.subject), ToLower);
  if (!text.empty()) text[0] = ToUpper(text[0]);
  return MakeText(c.meter, std::move(text));
}

bool BeginsWordOfFilter(Char before) {
  return IsSpace(before) || TextView(U"-({[<").find(before) != TextView::npos;
}
bool BeginsWordOfMethod(Char before) {
  return !IsLetter(ClassOf(before));
}

// Capitalizes words; kBeginsWord returns true if a word begins behind the character.
template <bool (*kBeginsWord)(Char before)>
Value Titled(const BuiltinCall& c) {
  Text text = Printed(c.meter, c.subject);
  bool begins = true;
  for (Char& one : text) {
    const bool next = kBeginsWord(Code(one));
    one = begins ? ToUpper(one) : ToLower(one);
    begins = next;
  }
  return MakeText(c.meter, std::move(text));
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

template <bool kLeft, bool kRight>
Value Strip(const BuiltinCall& c) {
  const Text text = Printed(c.meter, c.subject);
  return MakeText(c.meter, Text(Stripped(c.meter, text, c.args[0], kLeft, kRight)));
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

Value SplitText(const BuiltinCall& c) {
  Meter& meter = c.meter;
  const Value& separator = c.args[0];
  int64_t most = IntegerOr(meter, c.args[1], "maxsplit", -1);
  std::vector<Value> parts;
  TextView rest = *TextOf(c.subject);
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

Value Indented(const BuiltinCall& c) {
  const Text text = Printed(c.meter, c.subject);
  Text indent;
  if (const Text* given = TextOf(c.args[0])) {
    indent = *given;
  } else {
    const int64_t width = IntegerOr(c.meter, c.args[0], "indent's width", 4);
    if (width > 1000) c.meter.Fail("indent: a width beyond 1000");
    indent = Text(static_cast<size_t>(std::max<int64_t>(width, 0)), U' ');
  }
  TextBuilder out(c.meter);
  bool first = true;
  for (size_t at = 0; at <= text.size(); first = false) {
    const size_t end = std::min(text.find(U'\n', at), text.size());
    if (!first) out.Add(U'\n');
    if (first ? IsTrue(c.args[1]) : end > at || IsTrue(c.args[2])) out.Add(indent);
    out.Add(TextView(text).substr(at, end - at));
    at = end + 1;
  }
  return out.Take();
}

// {} and {0}, which templates fill in for names of tokens.
Value Formatted(const BuiltinCall& c) {
  const Text& format = *TextOf(c.subject);
  TextBuilder out(c.meter);
  size_t next = 0;
  for (size_t at = 0; at < format.size(); ++at) {
    const Char now = Code(format[at]), after = at + 1 < format.size() ? Code(format[at + 1]) : 0;
    if (now != U'{' && now != U'}') {
      out.Add(format[at]);
    } else if (now == after) {
      out.Add(format[at++]);
    } else if (now == U'{' && after == U'}' && next < c.args.size() && !IsUndefined(c.args[next])) {
      Print(c.meter, c.args[next++], out);
      ++at;
    } else {
      c.meter.Fail("format: only {} is supported, one for each argument");
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

Value ToInteger(const BuiltinCall& c) {
  const Value &value = c.subject, &otherwise = c.args[0];
  if (const bool* truth = std::get_if<bool>(&value)) return int64_t{*truth};
  if (std::holds_alternative<int64_t>(value)) return value;
  if (const auto integer = ParsedNumber<int64_t>(value)) return *integer;
  std::optional<double> number = ParsedNumber<double>(value);
  if (const double* given = std::get_if<double>(&value)) number = *given;
  if (number && std::abs(*number) < 9e18) return static_cast<int64_t>(*number);
  return IsUndefined(otherwise) ? Value(int64_t{0}) : otherwise;
}

Value ToFloat(const BuiltinCall& c) {
  const Value &value = c.subject, &otherwise = c.args[0];
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

template <bool kMost>
Value Extreme(const BuiltinCall& c) {
  const auto keyed = Keyed(c.meter, c.subject, c.args[0], c.args[1]);
  size_t best = 0;
  for (size_t i = 1; i < keyed.size(); ++i) {
    const Value &one = keyed[i].first, &other = keyed[best].first;
    if (kMost ? Less(c.meter, other, one) : Less(c.meter, one, other)) best = i;
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

Value Mapped(const BuiltinCall& c) {
  Meter& meter = c.meter;
  const Args args = c.args;
  const Builtin* by = nullptr;
  if (Given(args[0])) {
    const Text& name = TextFor(meter, args[0], "the name of a filter");
    by = FindFilter(ToUtf8(name));
    if (by == nullptr) meter.Fail(fmt::format("the filter `{}` is not supported", ToUtf8(name)));
  }
  if ((by == nullptr) != Given(args[1])) meter.Fail("map: requires a filter or an attribute");
  std::vector<Value> mapped;
  for (const Value& element : ElementsIfAny(meter, c.subject)) {
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

Value Unique(const BuiltinCall& c) {
  std::vector<Value> seen, unique;
  for (auto& [key, element] : Keyed(c.meter, c.subject, c.args[0], c.args[1])) {
    const auto same = [&, &mine = key](const Value& one) { return Equal(c.meter, one, mine); };
    if (std::ranges::any_of(seen, same)) continue;
    seen.push_back(key);
    unique.push_back(element);
  }
  return MakeList(c.meter, std::move(unique), ListKind::kIterator);
}

Value Reversed(const BuiltinCall& c) {
  if (const Text* text = TextOf(c.subject)) {
    return MakeText(c.meter, Text(text->rbegin(), text->rend()));
  }
  std::vector<Value> elements = Elements(c.meter, c.subject);
  std::ranges::reverse(elements);
  return MakeList(c.meter, std::move(elements), ListKind::kIterator);
}

Value Pairs(const BuiltinCall& c) {
  const Mapping* mapping = MappingOf(c.subject);
  std::vector<Value> pairs;
  if (mapping == nullptr && !IsUndefined(c.subject)) {
    c.meter.Fail(Describe(c.subject) + " has no members");
  }
  if (mapping != nullptr) {
    for (const auto& [name, value] : mapping->members) {
      pairs.push_back(MakeList(c.meter, {name, value}, ListKind::kTuple));
    }
  }
  return MakeList(c.meter, std::move(pairs));
}

Value SortedPairs(const BuiltinCall& c) {
  Meter& meter = c.meter;
  const Args args = c.args;
  const std::string by =
      Given(args[1]) ? ToUtf8(TextFor(meter, args[1], "dictsort's `by`")) : "key";
  if (by != "key" && by != "value") meter.Fail("dictsort: by \"key\" or \"value\"");
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& pair : Elements(meter, Pairs(c))) {
    const Value& key = ListOf(pair)->items[by == "key" ? 0 : 1];
    keyed.emplace_back(Comparable(meter, key, IsTrue(args[0])), std::move(pair));
  }
  return Sorted(meter, std::move(keyed), IsTrue(args[2]));
}

Value AsJson(const BuiltinCall& c) {
  Meter& meter = c.meter;
  const Args args = c.args;
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
  WriteJson(meter, c.subject, style, out);
  return out.Take();
}

template <bool kLast>
Value FirstOf(const BuiltinCall& c) {
  const std::vector<Value> elements = Elements(c.meter, c.subject);
  if (elements.empty()) return Undefined{};
  return kLast ? elements.back() : elements.front();
}

bool Holds(Meter& meter, const Value& container, const Value& value) {
  if (const Text* text = TextOf(container)) {
    return Find(meter, *text, TextFor(meter, value, "what is looked for in a text")) != Text::npos;
  }
  return std::ranges::any_of(Elements(meter, container),
                             [&](const Value& one) { return Equal(meter, one, value); });
}

bool IsIterable(const Value& value) {
  return TextOf(value) != nullptr || ListOf(value) != nullptr || MappingOf(value) != nullptr ||
         IsUndefined(value);
}

std::optional<Value> MemberOf(Meter& meter, const Value& object, const Value& key) {
  for (const auto& [name, value] : MappingOf(object)->members) {
    if (Equal(meter, name, key)) return value;
  }
  return std::nullopt;
}

bool IsIterator(const Value& value) {
  const List* list = ListOf(value);
  return list != nullptr && list->kind == ListKind::kIterator;
}

Value Otherwise(const BuiltinCall& c) {
  const bool missing = IsUndefined(c.subject) || (IsTrue(c.args[1]) && !IsTrue(c.subject));
  if (!missing) return c.subject;
  return IsUndefined(c.args[0]) ? MakeText(c.meter, Text()) : c.args[0];
}

Value AsText(const BuiltinCall& c) {
  return MakeText(c.meter, Printed(c.meter, c.subject));
}

Value AsList(const BuiltinCall& c) {
  return MakeList(c.meter, Elements(c.meter, c.subject));
}

Value LengthOf(const BuiltinCall& c) {
  return Length(c.meter, c.subject);
}

template <bool kPasses>
Value SelectedItself(const BuiltinCall& c) {
  return Selected(c.meter, c.subject, None{}, c.args, kPasses);
}

template <bool kPasses>
Value SelectedByAttribute(const BuiltinCall& c) {
  return Selected(c.meter, c.subject, c.args[0], c.args.subspan(1), kPasses);
}

template <bool kEqual>
Value IsEqual(const BuiltinCall& c) {
  return Equal(c.meter, c.subject, c.args[0]) == kEqual;
}

template <class... Ts>
Value Is(const BuiltinCall& c) {
  return (std::holds_alternative<Ts>(c.subject) || ...);
}

template <bool kTruth>
Value IsTruth(const BuiltinCall& c) {
  const bool* truth = std::get_if<bool>(&c.subject);
  return truth != nullptr && *truth == kTruth;
}

// The lists of filters, tests and methods. A row has a name, the arguments, the function, and the
// number of required arguments.

const std::vector<Builtin>& Filters() {
  static const std::vector<Builtin> filters = {
      {"trim", {"chars"}, Strip<true, true>},
      {"length", {}, LengthOf},
      {"count", {}, LengthOf},
      {"tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}, AsJson},
      {"default", {"default_value", "boolean"}, Otherwise},
      {"d", {"default_value", "boolean"}, Otherwise},
      {"upper", {}, InCase<ToUpper>},
      {"lower", {}, InCase<ToLower>},
      {"title", {}, Titled<BeginsWordOfFilter>},
      {"capitalize", {}, Capitalized},
      {"join",
       {"d", "attribute"},
       [](const BuiltinCall& c) {
         return Joined(c.meter, c.subject, Printed(c.meter, c.args[0]), c.args[1]);
       }},
      {"first", {}, FirstOf<false>},
      {"last", {}, FirstOf<true>},
      {"list", {}, AsList},
      {"items", {}, Pairs},
      {"map", {"filter", "attribute", "default"}, Mapped},
      {"select", {"test", "argument"}, SelectedItself<true>},
      {"reject", {"test", "argument"}, SelectedItself<false>},
      {"selectattr", {"attribute", "test", "argument"}, SelectedByAttribute<true>, 1},
      {"rejectattr", {"attribute", "test", "argument"}, SelectedByAttribute<false>, 1},
      {"replace",
       {"old", "new", "count"},
       [](const BuiltinCall& c) {
         return Replaced(c.meter, Printed(c.meter, c.subject), Printed(c.meter, c.args[0]),
                         Printed(c.meter, c.args[1]), IntegerOr(c.meter, c.args[2], "a count", -1));
       },
       2},
      {"safe", {}, AsText},
      {"string", {}, AsText},
      {"int", {"default"}, ToInteger},
      {"float", {"default"}, ToFloat},
      {"unique", {"case_sensitive", "attribute"}, Unique},
      {"reverse", {}, Reversed},
      {"sort",
       {"reverse", "case_sensitive", "attribute"},
       [](const BuiltinCall& c) {
         return Sorted(c.meter, Keyed(c.meter, c.subject, c.args[1], c.args[2]), IsTrue(c.args[0]));
       }},
      {"dictsort", {"case_sensitive", "by", "reverse"}, SortedPairs},
      {"min", {"case_sensitive", "attribute"}, Extreme<false>},
      {"max", {"case_sensitive", "attribute"}, Extreme<true>},
      {"indent", {"width", "first", "blank"}, Indented}};
  return filters;
}

const std::vector<Builtin>& Tests() {
  static const std::vector<Builtin> tests = {
      {"defined", {}, [](const BuiltinCall& c) -> Value { return !IsUndefined(c.subject); }},
      {"undefined", {}, Is<Undefined>},
      {"none", {}, Is<None>},
      {"string", {}, Is<std::shared_ptr<const TextValue>>},
      {"mapping", {}, Is<std::shared_ptr<const Mapping>>},
      {"iterable", {}, [](const BuiltinCall& c) -> Value { return IsIterable(c.subject); }},
      {"sequence",
       {},
       [](const BuiltinCall& c) -> Value {
         return IsIterable(c.subject) && !IsIterator(c.subject);
       }},
      {"number", {}, Is<bool, int64_t, double>},
      {"integer", {}, Is<int64_t>},
      {"float", {}, Is<double>},
      {"boolean", {}, Is<bool>},
      {"true", {}, IsTruth<true>},
      {"false", {}, IsTruth<false>},
      {"in",
       {"seq"},
       [](const BuiltinCall& c) -> Value { return Holds(c.meter, c.args[0], c.subject); },
       1},
      {"equalto", {"b"}, IsEqual<true>, 1},
      {"eq", {"b"}, IsEqual<true>, 1},
      {"==", {"b"}, IsEqual<true>, 1},
      {"ne", {"b"}, IsEqual<false>, 1},
      {"!=", {"b"}, IsEqual<false>, 1}};
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
      {"split", {"sep", "maxsplit"}, SplitText},
      {"strip", {"chars"}, Strip<true, true>},
      {"lstrip", {"chars"}, Strip<true, false>},
      {"rstrip", {"chars"}, Strip<false, true>},
      {"upper", {}, InCase<ToUpper>},
      {"lower", {}, InCase<ToLower>},
      {"title", {}, Titled<BeginsWordOfMethod>},
      {"capitalize", {}, Capitalized},
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
      {"format", {"1", "2", "3"}, Formatted}};
  return methods;
}

const std::vector<Builtin>& MappingMethods() {
  static const std::vector<Builtin> methods = {
      {"get",
       {"key", "default"},
       [](const BuiltinCall& c) -> Value {
         if (std::optional<Value> member = MemberOf(c.meter, c.subject, c.args[0])) {
           return *std::move(member);
         }
         return IsUndefined(c.args[1]) ? Value(None{}) : c.args[1];
       },
       1},
      {"items", {}, Pairs},
      {"keys", {}, AsList},
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
  if (IsIterator(object) || (list == nullptr && text == nullptr)) {
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
