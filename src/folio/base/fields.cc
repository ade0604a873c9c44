#include "folio/base/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>

#include "folio/base/error.h"
#include "folio/base/strings.h"

namespace folio {
namespace {

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

std::string NumberText(double value) {
  return std::abs(value) < 1e15 && value == std::trunc(value)
             ? fmt::format("{}", static_cast<int64_t>(value))
             : fmt::format("{}", value);
}

// "an integer from 1 to 8", "true or false", "one of a, b": what an error says was expected.
std::string Allowed(const Field& field) {
  if (!field.choices.empty()) return "one of " + Join(field.choices, ", ");
  std::string allowed = std::visit(
      [](auto* value) -> std::string {
        using T = std::remove_pointer_t<decltype(value)>;
        if constexpr (std::is_same_v<T, bool>) return "true or false";
        if constexpr (std::is_same_v<T, std::optional<bool>>) return "true, false or null";
        if constexpr (std::is_same_v<T, int64_t>) return "an integer";
        if constexpr (std::is_same_v<T, std::optional<int64_t>>) return "null or an integer";
        if constexpr (std::is_same_v<T, double>) return "a finite number";
        return "text";
      },
      field.value);
  const bool has_min = std::isfinite(field.min), has_max = std::isfinite(field.max);
  if (has_min && has_max) {
    allowed += fmt::format(" from {} to {}", NumberText(field.min), NumberText(field.max));
  } else if (has_min) {
    allowed += fmt::format(" of at least {}", NumberText(field.min));
  } else if (has_max) {
    allowed += fmt::format(" of at most {}", NumberText(field.max));
  }
  return allowed;
}

bool Parse(const std::string& text, bool& value) {
  value = text == "true";
  return value || text == "false";
}

template <class Number>
bool ParseNumber(const std::string& text, Number& value) {
  const char* end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, value);
  return problem == std::errc() && stop == end;
}
bool Parse(const std::string& text, int64_t& value) {
  return ParseNumber(text, value);
}
bool Parse(const std::string& text, double& value) {
  return ParseNumber(text, value) && std::isfinite(value);
}

bool Parse(const std::string& text, std::string& value) {
  value = text;
  return true;
}

// Parses and checks the range; leaves *value alone unless all is well.
template <class T>
bool Assign(const Field& field, const std::string& text, T* value) {
  if constexpr (kIsOptional<T>) {
    if (text == "null") {
      value->reset();
      return true;
    }
    typename T::value_type parsed{};
    if (!Assign(field, text, &parsed)) return false;
    *value = parsed;
  } else {
    T parsed{};
    if (!Parse(text, parsed)) return false;
    if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, double>) {
      const double number = static_cast<double>(parsed);
      if (number < field.min || number > field.max) return false;
    }
    *value = parsed;
  }
  return true;
}

}  // namespace

std::string FieldType(const Field& field) {
  if (!field.choices.empty()) return Join(field.choices, "|");
  return std::visit(
      [](auto* value) -> std::string {
        using T = std::remove_pointer_t<decltype(value)>;
        if constexpr (std::is_same_v<T, bool>) return "true|false";
        if constexpr (std::is_same_v<T, std::optional<bool>>) return "true|false|null";
        if constexpr (std::is_same_v<T, int64_t>) return "integer";
        if constexpr (std::is_same_v<T, std::optional<int64_t>>) return "integer|null";
        if constexpr (std::is_same_v<T, double>) return "number";
        return "text";
      },
      field.value);
}

std::string FieldText(const Field& field) {
  return std::visit(
      [](auto* value) -> std::string {
        if constexpr (kIsOptional<std::remove_pointer_t<decltype(value)>>) {
          return value->has_value() ? fmt::format("{}", **value) : "null";
        } else {
          return fmt::format("{}", *value);
        }
      },
      field.value);
}

void SetField(const Field& field, const std::string& text, const std::string& where) {
  const bool allowed =
      field.choices.empty() || std::ranges::find(field.choices, text) != field.choices.end();
  if (allowed && std::visit([&](auto* value) { return Assign(field, text, value); }, field.value)) {
    return;
  }
  const std::string nearest = Nearest(text, field.choices);
  throw UsageError(fmt::format("{}: '{}' is not a value of {}", where, text, field.key),
                   "expected " + Allowed(field),
                   nearest.empty() ? fmt::format("{}: {}", field.key, field.help)
                                   : fmt::format("did you mean '{}'?", nearest));
}

const Field& FindField(const std::vector<Field>& fields, const std::string& key,
                       const std::string& where) {
  std::vector<std::string> keys;
  for (const Field& field : fields) {
    if (field.key == key) return field;
    keys.push_back(field.key);
  }
  const std::string nearest = Nearest(key, keys);
  throw UsageError(fmt::format("{}: there is no '{}'", where, key), "unknown configuration key",
                   nearest.empty() ? "the keys are " + Join(keys, ", ")
                                   : fmt::format("did you mean '{}'?", nearest));
}

std::vector<Field> WithPrefix(const std::string& prefix, std::vector<Field> fields) {
  for (Field& field : fields) field.key = prefix + field.key;
  return fields;
}

}  // namespace folio
