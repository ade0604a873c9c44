#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "folio/base/fields.h"

namespace folio {

// The field named `key`; throws if there is none.
inline const Field& FindField(const std::vector<Field>& fields, const std::string& key) {
  for (const Field& field : fields) {
    if (field.key == key) return field;
  }
  throw std::out_of_range("there is no field " + key);
}

}  // namespace folio
