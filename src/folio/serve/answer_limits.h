#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "folio/serve/memory_budget.h"

namespace folio {

// AnswerLimits bound what one request may ask for, and all of them together.
struct AnswerLimits {
  double seconds = 600;             // for an answer
  int64_t prompts = 64;             // of one request
  size_t text_bytes = 1 << 20;      // of the texts of one field, and of what token ids become
  size_t values = 1 << 20;          // of JSON, in one request
  int64_t probabilities = 1 << 18;  // of tokens, told in one answer
  // All requests share this budget; a service that is not given one makes one of
  // MemoryBudget::DefaultBytes().
  std::shared_ptr<MemoryBudget> memory = {};
};

}  // namespace folio
