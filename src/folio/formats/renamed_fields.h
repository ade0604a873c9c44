#pragma once

#include <fmt/format.h>

#include <array>
#include <span>
#include <string>

#include "folio/base/error.h"
#include "folio/io/json.h"

namespace folio {

// A setting of another program, and the fields of config.json that have its value.
struct RenamedField {
  const char* name;
  std::array<const char*, 3> fields;
};

// Returns the fields of config.json that `values`, the settings of another program, stand for.
// Throws a kInput Error that begins with `where` if a setting is missing.
inline Json FieldsFrom(const Json& values, const char* activation,
                       std::span<const RenamedField> names, const std::string& where) {
  Json fields = {{"activation_function", activation}};
  for (const RenamedField& renamed : names) {
    const Json* value = values.find(renamed.name);
    if (value == nullptr) throw InputError(fmt::format("{} no {}", where, renamed.name));
    for (const char* field : renamed.fields) {
      if (field != nullptr) fields[field] = *value;
    }
  }
  return fields;
}

}  // namespace folio
