#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "folio/tensor/dtype.h"

namespace folio {

// How ggml stores the numbers of a tensor: in blocks along its rows.
struct GgmlType {
  uint32_t id;  // in GGUF files
  std::string_view name;
  size_t block;                     // numbers
  size_t bytes;                     // of a block
  std::optional<Dtype> dtype = {};  // the same, where folio has it
};

// Null if there is none of that id.
const GgmlType* FindGgmlType(uint32_t id);
// REQUIRES: ggml has that dtype.
const GgmlType& GgmlTypeOf(Dtype dtype);

}  // namespace folio
