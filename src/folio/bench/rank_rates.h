#pragma once

#include "folio/bench/step_model.h"
#include "folio/bench/training.h"

namespace folio {

// Measures this machine as a rank alone: forward and backward of such a model (`options` as in
// MeasureTrainRate; with fewer layers, sequences and positions where a pass takes too long or too
// much memory), the optimizer, and adding up on one thread. Takes a few seconds. Throws a kResource
// Error where not even a layer has room.
RankRates MeasureRankRates(Backend& backend, const BenchTrainOptions& options);

// The second and the third alone, for who knows the first.
RankRates MeasureMemoryRates(Backend& backend);

}  // namespace folio
