#include "folio/base/fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <iterator>
#include <type_traits>

#include "folio/base/error.h"
#include "folio/base/strings.h"

namespace folio {
namespace {

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

// Each kind of value by its index in Field::value: its type, and the words by which errors name
// what was expected.
constexpr struct {
  const char *type, *expected;
} kKinds[] = {{"true|false", "true or false"},
              {"integer", "an integer"},
              {"number", "a finite number"},
              {"text", "text"},
              {"true|false|null", "true, false or null"},
              {"integer|null", "null or an integer"},
              {"text", "text"}};
static_assert(std::size(kKinds) == std::variant_size_v<Field::Value>);

std::string NumberText(double value) {
  return std::abs(value) < 1e15 && value == std::trunc(value)
             ? fmt::format("{}", static_cast<int64_t>(value))
             : fmt::format("{}", value);
}

// "an integer from 1 to 8", "true or false", "one of a, b": what an error says was expected.
std::string Allowed(const Field& field) {
  if (!field.choices.empty()) return "one of " + Join(field.choices, ", ");
  const auto* const parsed = std::get_if<Field::Parsed>(&field.value);
  std::string allowed = parsed ? parsed->expected : kKinds[field.value.index()].expected;
  const bool has_min = std::isfinite(field.min), has_max = std::isfinite(field.max);
  if (has_min && has_max) {
    allowed +=
        fmt::format(" from {} {} {}", NumberText(field.min),
                    field.max_excluded ? "up to but not including" : "to", NumberText(field.max));
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

bool Assign(const Field&, const std::string& text, const Field::Parsed& value) {
  return value.parse(text, value.value);
}

// Parses and checks the range; changes *value only on success.
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
      if (field.max_excluded && number == field.max) return false;
    }
    *value = parsed;
  }
  return true;
}

}  // namespace

std::string FieldType(const Field& field) {
  if (!field.choices.empty()) return Join(field.choices, "|");
  return kKinds[field.value.index()].type;
}

std::string FieldText(const Field& field) {
  return std::visit(
      [](auto value) -> std::string {
        if constexpr (std::is_same_v<decltype(value), Field::Parsed>) {
          return value.text(value.value);
        } else if constexpr (kIsOptional<std::remove_pointer_t<decltype(value)>>) {
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
  if (allowed && std::visit([&](auto value) { return Assign(field, text, value); }, field.value)) {
    return;
  }
  const std::string nearest = Nearest(text, field.choices);
  throw UsageError(fmt::format("{}: '{}' is not a value of {}", where, text, field.key),
                   "expected " + Allowed(field),
                   nearest.empty() ? fmt::format("{}: {}", field.key, field.help)
                                   : fmt::format("did you mean '{}'?", nearest));
}

Field NumbersField(std::string key, std::vector<double>* value, std::string help) {
  const auto text = [](const void* numbers) {
    return NumbersText(*static_cast<const std::vector<double>*>(numbers));
  };
  const auto parse = [](const std::string& list, void* numbers) {
    std::vector<double> parsed;
    for (const std::string& part : list.empty() ? std::vector<std::string>() : Split(list, ',')) {
      if (!Parse(part, parsed.emplace_back())) return false;
    }
    *static_cast<std::vector<double>*>(numbers) = std::move(parsed);
    return true;
  };
  return {std::move(key), Field::Parsed{value, text, parse, "numbers separated by commas"},
          std::move(help)};
}

std::string NumbersText(const std::vector<double>& numbers) {
  return fmt::format("{}", fmt::join(numbers, ","));
}

bool IsText(const Field& field) {
  return std::holds_alternative<std::string*>(field.value) ||
         std::holds_alternative<Field::Parsed>(field.value);
}

bool TakesTruth(const Field& field) {
  return std::holds_alternative<bool*>(field.value) ||
         std::holds_alternative<std::optional<bool>*>(field.value) ||
         std::ranges::find(field.choices, "true") != field.choices.end();
}

std::vector<Field> WithPrefix(const std::string& prefix, std::vector<Field> fields) {
  for (Field& field : fields) field.key = prefix + field.key;
  return fields;
}

}  // namespace folio
