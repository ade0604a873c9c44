#pragma once

#include <string>

#include "folio/backend/backend.h"
#include "folio/model/context.h"
#include "folio/train/config.h"

namespace folio {

// The dtype that a run computes in, F32 or BF16: train.dtype, decided for this model and backend
// where it is "auto". Throws a kUsage Error where the backend has no BF16.
Dtype TrainDtype(const TrainConfig& train, const GptConfig& model, const Backend& backend);

// How a run's passes compute: TrainDtype, train.recompute and train.lora; `packed` for
// conversations.
PassOptions PassOptionsOf(const TrainConfig& train, const GptConfig& model, const Backend& backend,
                          bool packed = false);

// train.reduce_dtype: what gradients are rounded to before they are added up.
Dtype ReduceDtype(const TrainConfig& train);

}  // namespace folio
