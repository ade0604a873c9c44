#pragma once

#include <string>
#include <vector>

#include "folio/base/fields.h"

namespace folio {

// How text becomes tokens (keys `data.*`).
struct DataConfig {
  std::string tokenizer = "char";  // char | bytes | what OpenTokenizer takes
  double val_fraction = 0.1;

  std::vector<Field> Fields();
};

}  // namespace folio
