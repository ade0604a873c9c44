#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "folio/data/batch_sampler.h"
#include "folio/model/gpt.h"
#include "folio/train/result.h"

namespace folio {

// The first `batches` batches of a sampler.
struct EvaluationData {
  BatchSampler& sampler;
  int64_t batches = 0;
};

// What an evaluation asks and tells; either may be empty.
struct EvaluationHooks {
  const std::function<bool()>& stop_requested;                          // before each batch
  const std::function<void(int64_t done, int64_t total)>& on_progress;  // batches
};

// The losses of both without dropout; nothing if asked to stop before the end. `batch` is scratch.
std::optional<Evaluation> Evaluate(GptPass& pass, const GptParams& params,
                                   const EvaluationData& train, const EvaluationData& val,
                                   Batch& batch, const EvaluationHooks& hooks);

}  // namespace folio
