#include "folio/text/jinja_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "folio/base/utf8.h"
#include "folio/text/unicode.h"

namespace folio::jinja {
namespace {

// A byte that is not UTF-8 becomes the low surrogate of its value, as with Python's
// "surrogateescape".
constexpr Char kOfByte = 0xDC00;

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

// A bool counts as a number, as in Python.
std::optional<int64_t> IntegerOf(const Value& value) {
  if (const bool* truth = std::get_if<bool>(&value)) return *truth ? 1 : 0;
  const int64_t* integer = std::get_if<int64_t>(&value);
  return integer == nullptr ? std::nullopt : std::optional(*integer);
}

std::optional<double> NumberOf(const Value& value) {
  if (const double* number = std::get_if<double>(&value)) return *number;
  const std::optional<int64_t> integer = IntegerOf(value);
  return integer ? std::optional(static_cast<double>(*integer)) : std::nullopt;
}

int DepthOf(const Value& value) {
  if (const List* list = ListOf(value)) return list->depth;
  const Mapping* mapping = MappingOf(value);
  return mapping == nullptr ? 0 : mapping->depth;
}

// The depth of a value that holds `value`. Throws if it becomes too deep.
int DepthAround(Meter& meter, const Value& value, int depth) {
  if (std::holds_alternative<std::shared_ptr<Namespace>>(value)) {
    meter.Fail("a namespace cannot be in a list or mapping");
  }
  depth = std::max(depth, DepthOf(value) + 1);
  if (depth > kMostValueDepth) {
    meter.Fail(fmt::format("lists and mappings nest deeper than {}", kMostValueDepth));
  }
  return depth;
}

// Like Python's float.__repr__: the fewest digits that read back as the same number.
std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  std::string text = fmt::format("{}", value);
  if (std::isfinite(value) && text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

void PrintQuoted(TextView text, TextBuilder& out) {
  const bool has_single = text.find(U'\'') != TextView::npos;
  const Char quote = has_single && text.find(U'"') == TextView::npos ? U'"' : U'\'';
  out.Add(quote);
  for (const Char c : text) {
    const Char code = Code(c);
    if (code == quote || code == U'\\') {
      out.Add(U'\\').Add(c);
    } else if (code == U'\n' || code == U'\r' || code == U'\t') {
      out.Add(code == U'\n' ? "\\n" : code == U'\r' ? "\\r" : "\\t");
    } else if (code < 0x20 || (code >= 0x7F && code <= 0xA0) || code == 0xAD) {
      out.Add(fmt::format("\\x{:02x}", static_cast<uint32_t>(code)));
    } else {
      out.Add(c);
    }
  }
  out.Add(quote);
}

void WriteJsonText(TextView text, bool ascii, TextBuilder& out) {
  out.Add(U'"');
  for (const Char c : text) {
    const Char code = Code(c);
    constexpr std::u32string_view kEscaped = U"\"\\\n\r\t\f\b", kAs = U"\"\\nrtfb";
    if (const size_t at = kEscaped.find(code); at != std::u32string_view::npos) {
      out.Add(U'\\').Add(kAs[at]);
    } else if (code < 0x20 || (ascii && code > 0x7E && code < 0x10000)) {
      out.Add(fmt::format("\\u{:04x}", static_cast<uint32_t>(code)));
    } else if (ascii && code > 0xFFFF) {
      const auto above = static_cast<uint32_t>(code - 0x10000);
      out.Add(fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (above >> 10), 0xDC00 + (above & 0x3FF)));
    } else {
      out.Add(c);
    }
  }
  out.Add(U'"');
}

void WriteJsonName(Meter& meter, const Value& name, bool ascii, TextBuilder& out) {
  if (const Text* text = TextOf(name)) return WriteJsonText(*text, ascii, out);
  if (!NumberOf(name) && !std::holds_alternative<None>(name)) {
    meter.Fail("tojson: " + Describe(name) + " is not a member name");
  }
  out.Add(U'"');
  WriteJson(meter, name, {}, out);
  out.Add(U'"');
}

}  // namespace

Error TemplateError(const std::string& where, int line, const std::string& cause) {
  return InputError(fmt::format("{}, line {}: {}", where, line, cause), {},
                    "use another template with --chat-template NAME|FILE");
}

void Meter::Fail(const std::string& cause) const {
  throw TemplateError(where_, line, cause);
}

void Meter::Work(size_t units) {
  work_ += static_cast<int64_t>(std::min(uint64_t{units}, uint64_t{1} << 40));
  if (work_ > kMostWork) Fail(fmt::format("it exceeds the limit of {} operations", kMostWork));
}

void Meter::Take(size_t bytes) {
  if (bytes > kMostBytes - std::min(bytes_, kMostBytes)) {
    Fail(fmt::format("it exceeds the limit of {} bytes", kMostBytes));
  }
  bytes_ += bytes;
  constexpr size_t kBytesOfUnit = 8;
  Work(bytes / kBytesOfUnit);
}

int CharTraits::compare(const Char* a, const Char* b, size_t length) {
  for (size_t i = 0; i < length; ++i) {
    if (!eq(a[i], b[i])) return lt(a[i], b[i]) ? -1 : 1;
  }
  return 0;
}

const Char* CharTraits::find(const Char* text, size_t length, const Char& c) {
  const Char* found = std::find_if(text, text + length, [&](Char one) { return eq(one, c); });
  return found == text + length ? nullptr : found;
}

Text FromUtf8(std::string_view text, Char marks) {
  Text characters;
  characters.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Char next = DecodeUtf8(text, at);
    if (next.status == Utf8Status::kValid) {
      characters += next.code | marks;
      at += next.length;
    } else {
      characters.push_back((kOfByte + static_cast<uint8_t>(text[at++])) | marks);
    }
  }
  return characters;
}

std::string ToUtf8(TextView text) {
  std::string utf8;
  for (const Char c : text) {
    const Char code = Code(c);
    if (code >= kOfByte + 0x80 && code <= kOfByte + 0xFF) {
      utf8 += static_cast<char>(code - kOfByte);
    } else {
      AppendUtf8(code >= 0xD800 && code < 0xE000 ? U'\uFFFD' : code, utf8);
    }
  }
  return utf8;
}

bool IsSpace(Char c) {
  return ClassOf(Code(c)) == CharClass::kSpace || (Code(c) >= 0x1C && Code(c) <= 0x1F);
}

std::optional<Value> Namespace::Find(Meter& meter, std::string_view name) const {
  meter.Look(name, attributes.size());
  for (const auto& [its_name, value] : attributes) {
    if (its_name == name) return value;
  }
  return std::nullopt;
}

void Namespace::Set(Meter& meter, std::string_view name, Value value) {
  meter.Look(name, attributes.size());
  for (auto& [its_name, its_value] : attributes) {
    if (its_name != name) continue;
    its_value = std::move(value);
    return;
  }
  attributes.emplace_back(name, std::move(value));
}

Value MakeText(Meter& meter, Text text) {
  return std::make_shared<const TextValue>(&meter, std::move(text));
}

Value MakeText(Meter& meter, std::string_view text) {
  return MakeText(meter, FromUtf8(text));
}

Value MakeList(Meter& meter, std::vector<Value> items, ListKind kind) {
  meter.Work(kWorkOfValue * items.size());
  int depth = 1;
  for (const Value& item : items) depth = DepthAround(meter, item, depth);
  return std::make_shared<const List>(&meter, std::move(items), kind, depth);
}

Value MakeMapping(Meter& meter, Members members) {
  Members distinct;
  int depth = 1;
  for (Members::value_type& member : members) {
    const Value& name = member.first;
    if (ListOf(name) != nullptr || MappingOf(name) != nullptr) {
      meter.Fail(Describe(name) + " is not a key of a mapping");
    }
    depth = DepthAround(meter, name, DepthAround(meter, member.second, depth));
    const auto same = std::ranges::find_if(
        distinct, [&](const auto& one) { return Equal(meter, one.first, name); });
    if (same == distinct.end()) {
      distinct.push_back(std::move(member));
    } else {
      same->second = std::move(member.second);
    }
  }
  return std::make_shared<const Mapping>(&meter, std::move(distinct), depth);
}

Value FromJson(Meter& meter, const Json& json, Char marks) {
  meter.Work(kWorkOfNode);
  if (json.is_null()) return None{};
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_string()) {
    meter.Work(json.text().size());
    return MakeText(meter, FromUtf8(json.text(), marks));
  }
  if (json.is_array()) {
    std::vector<Value> items;
    for (const Json& item : json) items.push_back(FromJson(meter, item, marks));
    return MakeList(meter, std::move(items));
  }
  if (json.is_object()) {
    // The names of a JSON object are already distinct.
    Members members;
    int depth = 1;
    for (const auto& [name, value] : json.items()) {
      const Char more = value.is_string() && name == "arguments" ? kArguments : Char{0};
      members.emplace_back(MakeText(meter, FromUtf8(name, marks)),
                           FromJson(meter, value, marks | more));
      depth = DepthAround(meter, members.back().second, depth);
    }
    return std::make_shared<const Mapping>(&meter, std::move(members), depth);
  }
  if (!json.is_number_integer()) return json.get<double>();
  const auto number = json.get<double>();
  if (json.is_number_unsigned() && number > 9.2e18) meter.Fail("an integer beyond 64 bits");
  return json.get<int64_t>();
}

const Text* TextOf(const Value& value) {
  const auto* text = std::get_if<std::shared_ptr<const TextValue>>(&value);
  return text == nullptr ? nullptr : &(*text)->text;
}

const List* ListOf(const Value& value) {
  const auto* list = std::get_if<std::shared_ptr<const List>>(&value);
  return list == nullptr ? nullptr : list->get();
}

const Mapping* MappingOf(const Value& value) {
  const auto* mapping = std::get_if<std::shared_ptr<const Mapping>>(&value);
  return mapping == nullptr ? nullptr : mapping->get();
}

std::string Describe(const Value& value) {
  return std::visit(
      Overloaded{[](const Undefined& one) {
                   return one.name.empty() ? std::string("what is not defined")
                                           : fmt::format("'{}', which is not defined", one.name);
                 },
                 [](None) { return std::string("none"); },
                 [](bool) { return std::string("a boolean"); },
                 [](int64_t) { return std::string("an integer"); },
                 [](double) { return std::string("a number"); },
                 [](const std::shared_ptr<const TextValue>&) { return std::string("a text"); },
                 [](const std::shared_ptr<const List>& list) {
                   return std::string(list->kind == ListKind::kList    ? "a list"
                                      : list->kind == ListKind::kTuple ? "a tuple"
                                                                       : "an iterator");
                 },
                 [](const std::shared_ptr<const Mapping>&) { return std::string("a mapping"); },
                 [](const std::shared_ptr<Namespace>&) { return std::string("a namespace"); },
                 [](const Node*) { return std::string("a macro"); },
                 [](MethodName method) { return fmt::format("the method `{}`", method.name); },
                 [](Function) { return std::string("a function"); }},
      value);
}

bool IsTrue(const Value& value) {
  return std::visit(
      Overloaded{[](const Undefined&) { return false; }, [](None) { return false; },
                 [](bool one) { return one; }, [](int64_t one) { return one != 0; },
                 [](double one) { return one != 0; },
                 [](const std::shared_ptr<const TextValue>& one) { return !one->text.empty(); },
                 [](const std::shared_ptr<const List>& one) {
                   return one->kind == ListKind::kIterator || !one->items.empty();
                 },
                 [](const std::shared_ptr<const Mapping>& one) { return !one->members.empty(); },
                 [](const auto&) { return true; }},
      value);
}

bool Equal(Meter& meter, const Value& a, const Value& b) {
  meter.Work(kWorkOfValue);
  if (const Text* one = TextOf(a), *other = TextOf(b); one != nullptr && other != nullptr) {
    if (one->size() != other->size()) return false;
    meter.Work(one->size());
    return *one == *other;
  }
  if (const List* one = ListOf(a), *other = ListOf(b); one != nullptr && other != nullptr) {
    return one->kind == other->kind &&
           std::ranges::equal(one->items, other->items,
                              [&](const Value& x, const Value& y) { return Equal(meter, x, y); });
  }
  if (const Mapping* one = MappingOf(a), *other = MappingOf(b);
      one != nullptr && other != nullptr) {
    return one->members.size() == other->members.size() &&
           std::ranges::all_of(one->members, [&](const auto& member) {
             return std::ranges::any_of(other->members, [&](const auto& its) {
               return Equal(meter, member.first, its.first) &&
                      Equal(meter, member.second, its.second);
             });
           });
  }
  if (const auto one = IntegerOf(a), other = IntegerOf(b); one && other) return *one == *other;
  if (const auto one = NumberOf(a), other = NumberOf(b); one && other) return *one == *other;
  if (a.index() != b.index()) return false;
  if (const auto* one = std::get_if<std::shared_ptr<Namespace>>(&a)) {
    return *one == std::get<std::shared_ptr<Namespace>>(b);
  }
  if (const auto* one = std::get_if<const Node*>(&a)) return *one == std::get<const Node*>(b);
  if (const auto* one = std::get_if<Function>(&a)) return *one == std::get<Function>(b);
  return IsUndefined(a) || std::holds_alternative<None>(a);
}

bool Less(Meter& meter, const Value& a, const Value& b) {
  meter.Work(kWorkOfValue);
  if (const Text* one = TextOf(a), *other = TextOf(b); one != nullptr && other != nullptr) {
    meter.Work(std::min(one->size(), other->size()));
    return *one < *other;
  }
  if (const auto one = IntegerOf(a), other = IntegerOf(b); one && other) return *one < *other;
  if (const auto one = NumberOf(a), other = NumberOf(b); one && other) return *one < *other;
  if (const List* one = ListOf(a), *other = ListOf(b);
      one != nullptr && other != nullptr && one->kind == other->kind) {
    for (size_t i = 0; i < std::min(one->items.size(), other->items.size()); ++i) {
      if (Equal(meter, one->items[i], other->items[i])) continue;
      return Less(meter, one->items[i], other->items[i]);
    }
    return one->items.size() < other->items.size();
  }
  meter.Fail(fmt::format("{} and {} cannot be compared", Describe(a), Describe(b)));
}

std::vector<Value> Elements(Meter& meter, const Value& value) {
  if (IsUndefined(value)) return {};
  std::vector<Value> elements;
  if (const List* list = ListOf(value)) {
    elements = list->items;
  } else if (const Mapping* mapping = MappingOf(value)) {
    for (const auto& [name, member] : mapping->members) elements.push_back(name);
  } else if (const Text* text = TextOf(value)) {
    for (const Char c : *text) elements.push_back(MakeText(meter, Text(1, c)));
  } else {
    meter.Fail(Describe(value) + " cannot be iterated");
  }
  meter.Work(kWorkOfValue * elements.size());
  return elements;
}

int64_t Length(Meter& meter, const Value& value) {
  if (IsUndefined(value)) return 0;
  if (const List* list = ListOf(value); list != nullptr && list->kind != ListKind::kIterator) {
    return std::ssize(list->items);
  }
  if (const Mapping* mapping = MappingOf(value)) return std::ssize(mapping->members);
  if (const Text* text = TextOf(value)) return std::ssize(*text);
  meter.Fail(Describe(value) + " has no length");
}

size_t Find(Meter& meter, TextView text, TextView part, size_t at) {
  for (; at + part.size() <= text.size(); ++at) {
    size_t same = 0;
    while (same < part.size() && CharTraits::eq(text[at + same], part[same])) ++same;
    meter.Work(same + 1);
    if (same == part.size()) return at;
  }
  return TextView::npos;
}

TextBuilder& TextBuilder::Add(std::string_view utf8) {
  meter_.Work(2 * kWorkOfValue);  // for numbers and escapes, which are short
  return Add(TextView(FromUtf8(utf8)));
}

TextBuilder& TextBuilder::Add(TextView part) {
  if (part.size() > kMostCharacters - text_.size()) {
    meter_.Fail(fmt::format("a string of more than {} characters", kMostCharacters));
  }
  meter_.Work(1 + part.size());
  meter_.Take(part.size() * sizeof(Char));
  text_ += part;
  return *this;
}

void Print(Meter& meter, const Value& value, TextBuilder& out, bool quoted) {
  meter.Work(kWorkOfValue);
  const auto all = [&](const std::vector<Value>& items) {
    bool first = true;
    for (const Value& item : items) {
      if (!std::exchange(first, false)) out.Add(", ");
      Print(meter, item, out, true);
    }
  };
  if (const Text* text = TextOf(value)) {
    if (!quoted) return void(out.Add(*text));
    return PrintQuoted(*text, out);
  }
  meter.wrote_values = meter.wrote_values || ListOf(value) != nullptr ||
                       MappingOf(value) != nullptr || std::holds_alternative<None>(value);
  const List* list = ListOf(value);
  if (list != nullptr && list->kind != ListKind::kIterator) {
    const bool tuple = list->kind == ListKind::kTuple;
    out.Add(tuple ? "(" : "[");
    all(list->items);
    out.Add(!tuple ? "]" : list->items.size() == 1 ? ",)" : ")");
  } else if (const Mapping* mapping = MappingOf(value)) {
    out.Add("{");
    bool first = true;
    for (const auto& [name, member] : mapping->members) {
      if (!std::exchange(first, false)) out.Add(", ");
      Print(meter, name, out, true);
      out.Add(": ");
      Print(meter, member, out, true);
    }
    out.Add("}");
  } else if (const bool* truth = std::get_if<bool>(&value)) {
    out.Add(*truth ? "True" : "False");
  } else if (const int64_t* integer = std::get_if<int64_t>(&value)) {
    out.Add(fmt::format("{}", *integer));
  } else if (const double* number = std::get_if<double>(&value)) {
    out.Add(FloatText(*number));
  } else if (std::holds_alternative<None>(value)) {
    out.Add("None");
  } else if (IsUndefined(value)) {
    if (quoted) out.Add("Undefined");
  } else {
    meter.Fail(Describe(value) + " is not text");
  }
}

Text Printed(Meter& meter, const Value& value) {
  if (const Text* text = TextOf(value)) {
    meter.Work(text->size());
    return *text;
  }
  TextBuilder out(meter);
  Print(meter, value, out);
  return out.text();
}

void WriteJson(Meter& meter, const Value& value, const JsonStyle& style, TextBuilder& out,
               int64_t depth) {
  meter.Work(kWorkOfValue);
  const auto line = [&](int64_t level) {
    if (style.indent >= 0) out.Add("\n").Add(Text(static_cast<size_t>(style.indent * level), U' '));
  };
  const auto all = [&](size_t count, const auto& write) {
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) out.Add(style.comma);
      line(depth + 1);
      write(i);
    }
    if (count > 0) line(depth);
  };
  if (const Text* text = TextOf(value)) {
    meter.wrote_values = meter.wrote_values ||
                         std::ranges::any_of(*text, [](Char c) { return (c & kArguments) != 0; });
    WriteJsonText(*text, style.ascii, out);
  } else if (const List* list = ListOf(value);
             list != nullptr && list->kind != ListKind::kIterator) {
    out.Add("[");
    all(list->items.size(),
        [&](size_t i) { WriteJson(meter, list->items[i], style, out, depth + 1); });
    out.Add("]");
  } else if (const Mapping* mapping = MappingOf(value)) {
    std::vector<const Members::value_type*> members;
    for (const auto& member : mapping->members) members.push_back(&member);
    if (style.sorted) {
      std::ranges::stable_sort(
          members, [&](const auto* a, const auto* b) { return Less(meter, a->first, b->first); });
    }
    out.Add("{");
    all(members.size(), [&](size_t i) {
      WriteJsonName(meter, members[i]->first, style.ascii, out);
      out.Add(style.colon);
      WriteJson(meter, members[i]->second, style, out, depth + 1);
    });
    out.Add("}");
  } else if (const bool* truth = std::get_if<bool>(&value)) {
    out.Add(*truth ? "true" : "false");
  } else if (const int64_t* integer = std::get_if<int64_t>(&value)) {
    out.Add(fmt::format("{}", *integer));
  } else if (const double* number = std::get_if<double>(&value)) {
    const double size = std::abs(*number);
    out.Add(std::isfinite(size) ? FloatText(*number)
            : std::isnan(size)  ? "NaN"
            : *number < 0       ? "-Infinity"
                                : "Infinity");
  } else if (std::holds_alternative<None>(value)) {
    out.Add("null");
  } else {
    meter.Fail("tojson: " + Describe(value) + " is not valid JSON");
  }
}

}  // namespace folio::jinja
