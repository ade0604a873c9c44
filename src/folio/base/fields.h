#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace folio {

// One configuration value: where it lives, its key, its range and its help. A configuration struct
// lists its fields once, in `std::vector<Field> Fields()`; JSON, TOML, --flags, --help, `config
// show` and the saved configuration of a run all read that list. std::optional means "null, decided
// by another field".
struct Field {
  using Value = std::variant<bool*, int64_t*, double*, std::string*, std::optional<bool>*,
                             std::optional<int64_t>*>;

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

// "integer", "number", "true|false", "text" or "a|b|c", and "|null" after it if optional.
std::string FieldType(const Field& field);

// The value as it would be typed: numbers in the shortest form that reads back the same, "null" for
// an absent optional.
std::string FieldText(const Field& field);

// Parses `text` into the field. Throws a kUsage Error whose `what` begins with `where` and which
// says the allowed values, if it does not parse, is out of range or is not among the choices.
void SetField(const Field& field, const std::string& text, const std::string& where);

// Returns true if true and false are values of the field, alone or among other texts.
bool TakesTruth(const Field& field);

// The same fields with `prefix` before their keys ("train." + "batch_size").
std::vector<Field> WithPrefix(const std::string& prefix, std::vector<Field> fields);

}  // namespace folio
