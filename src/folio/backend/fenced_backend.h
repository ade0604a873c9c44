#pragma once

#include <memory>

#include "folio/backend/backend.h"

namespace folio {

// When a fenced backend runs its operations.
enum class FencedOrder {
  kAtOnce,
  kLate,  // when somebody waits, or copies from or to its memory
};

// The forms in which it wants passes and weights: by default those that keep the cpu backend's
// bits.
struct FencedForm {
  BackendPreferences preferences = {.low_weights = true, .residual_norm = true};
  int64_t row_multiple = 1;  // Memory's
};

// The cpu backend with a memory of its own, as a GPU has it, to find code that treats that memory
// as the host's. The memory can be read and written during operations and copies alone: the process
// ends where host code touches it, with the names of the tensor and of the last operation. An
// operation whose operand lies elsewhere is a mistake of the program, too. Results are those of the
// cpu backend, bit for bit.
std::unique_ptr<Backend> MakeFencedBackend(FencedOrder order = FencedOrder::kAtOnce,
                                           const FencedForm& form = {});

}  // namespace folio
