#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "folio/data/batch_sampler.h"
#include "folio/model/gpt.h"
#include "folio/ranks/group.h"
#include "folio/train/run_log.h"

namespace folio {

// The first `batches` batches of a sampler.
struct EvaluationData {
  BatchSampler& sampler;
  int64_t batches = 0;
};

// The mean loss over the batches of all ranks. `mine` has the sum of the losses and the number of
// targets of each batch of this rank; all ranks have equally many. Ranks take `in_a_row` batches in
// turns, and losses are added up in this order. Ranks that share a model's layers have the same.
double MeanLoss(const std::vector<double>& mine, const Communicator& communicator,
                int64_t in_a_row = 1);

// Returns the losses of both without dropout, or nothing if `stop_requested` returned true before a
// batch. `batch` is scratch. With a communicator, each rank takes its share of the batches, and all
// get the same result, which does not depend on how many they are; stop_requested must return the
// same on all. `on_progress` gets numbers of batches, and may be empty.
std::optional<Evaluation> Evaluate(
    GptPass& pass, const GptParams& params, const EvaluationData& train, const EvaluationData& val,
    Batch& batch, const std::function<bool()>& stop_requested,
    const std::function<void(int64_t done, int64_t total)>& on_progress,
    const Communicator& communicator = {});

}  // namespace folio
