#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "folio/backend/backend.h"
#include "folio/infer/sampler.h"
#include "folio/report/report.h"

namespace folio {

// A row of logits and what its tokens are called.
struct LabelledLogits {
  std::span<const float> logits;
  std::function<std::string(int32_t id)> label;
};

// Adds the steps from logits to the token that is drawn: the first of `folio generate` with these
// options. Where there are more tokens than a table can show, the likeliest are shown.
void AddSamplingSteps(Backend& backend, const LabelledLogits& row, const SamplingOptions& options,
                      Report& walk);

}  // namespace folio
