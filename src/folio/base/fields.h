#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace folio {

// One configuration value: where it lives, its key, its range and its help. A configuration struct
// lists its fields once, in `std::vector<Field> Fields()`; JSON, TOML, --flags, --help, `config
// show` and the saved configuration of a run all read that list. std::optional means "null, decided
// by another field".
struct Field {
  // A value of any other type, which has a text.
  struct Parsed {
    void* value;
    std::string (*text)(const void* value);
    // Returns false, and leaves the value alone, for a text that means none.
    bool (*parse)(const std::string& text, void* value);
    const char* expected = "text";  // the words that errors expect it with

    bool operator==(const Parsed&) const = default;
  };
  using Value = std::variant<bool*, int64_t*, double*, std::string*, std::optional<bool>*,
                             std::optional<int64_t>*, Parsed>;

  std::string key;
  Value value;
  std::string help;
  double min = -std::numeric_limits<double>::infinity();  // inclusive, numbers only
  double max = std::numeric_limits<double>::infinity();   // inclusive unless max_excluded
  std::vector<std::string> choices = {};                  // if any, the only strings allowed
  std::string flag = {};  // "--batch": a flag of its own beside --set
  // Texts that help and completion show where any text is allowed.
  std::vector<std::string> suggestions = {};
  bool max_excluded = false;

  Field Choices(std::vector<std::string> allowed) && {
    choices = std::move(allowed);
    return std::move(*this);
  }
  Field Suggestions(std::vector<std::string> known) && {
    suggestions = std::move(known);
    return std::move(*this);
  }
  Field MaxExcluded() && {
    max_excluded = true;
    return std::move(*this);
  }
  Field WithFlag(std::string name) && {
    flag = std::move(name);
    return std::move(*this);
  }
};

// An enumeration that is a setting has a function NamesOf(E) beside it, which returns the names of
// its values in their order, an array of std::string_view.
template <class E>
concept NamedEnum = requires(E value) {
  NamesOf(value);
};

template <NamedEnum E>
constexpr std::string_view NameOf(E value) {
  return NamesOf(value)[static_cast<size_t>(value)];
}

// Returns the value of that name, or none.
template <NamedEnum E>
constexpr std::optional<E> FromName(std::string_view name) {
  const auto names = NamesOf(E{});
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<E>(found - names.begin());
}

// A field whose value is of such an enumeration.
template <NamedEnum E>
Field ChoiceField(std::string key, E* value, std::string help) {
  const auto text = [](const void* chosen) {
    return std::string(NameOf(*static_cast<const E*>(chosen)));
  };
  const auto parse = [](const std::string& name, void* chosen) {
    const std::optional<E> found = FromName<E>(name);
    if (found) *static_cast<E*>(chosen) = *found;
    return found.has_value();
  };
  const auto names = NamesOf(E{});
  return Field{std::move(key), Field::Parsed{value, text, parse}, std::move(help)}.Choices(
      {names.begin(), names.end()});
}

// A list of finite numbers, "1,1.5".
Field NumbersField(std::string key, std::vector<double>* value, std::string help);
std::string NumbersText(const std::vector<double>& numbers);

// "integer", "number", "true|false", "text" or "a|b|c", and "|null" after it if optional.
std::string FieldType(const Field& field);

// The value as it would be typed: numbers in the shortest form that reads back the same, "null" for
// an absent optional.
std::string FieldText(const Field& field);

// Parses `text` into the field. Throws a kUsage Error whose `what` begins with `where` and which
// says the allowed values, if it does not parse, is out of range or is not among the choices.
void SetField(const Field& field, const std::string& text, const std::string& where);

// Returns true if the value is a text, or what its text says.
bool IsText(const Field& field);

// Returns true if true and false are values of the field, alone or among other texts.
bool TakesTruth(const Field& field);

// The same fields with `prefix` before their keys ("train." + "batch_size").
std::vector<Field> WithPrefix(const std::string& prefix, std::vector<Field> fields);

}  // namespace folio
