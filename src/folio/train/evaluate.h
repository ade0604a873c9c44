#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "folio/base/rng.h"
#include "folio/data/batch_sampler.h"
#include "folio/data/dataset.h"
#include "folio/model/config.h"
#include "folio/model/gpt.h"
#include "folio/ranks/group.h"
#include "folio/train/config.h"
#include "folio/train/run_log.h"

namespace folio {

// The first `batches` batches of a sampler.
struct EvaluationData {
  BatchSampler& sampler;
  int64_t batches = 0;
};

// The number of batches of an evaluation.
struct EvaluationSize {
  int64_t train = 0, val = 0;
  bool whole = false;  // all windows of the held-out set in a row, and none drawn at random
};

// Returns train.eval_batches for each part, or all windows of a held-out set that has no more than
// these. Runs with PyTorch's random numbers draw train.eval_batches whatever its size. REQUIRES:
// context is set.
EvaluationSize EvaluationSizeOf(const TrainConfig& config, int64_t val_tokens);

// The number of steps that read all of the data once, a fraction where one step reads more.
// Conversations are counted in whole windows. REQUIRES: context is set, and `data` has more tokens.
double StepsPerEpoch(const Dataset& data, const TrainConfig& config);
// The steps of config.epochs, at least one. REQUIRES: likewise.
int64_t StepsOfEpochs(const Dataset& data, const TrainConfig& config);

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

// The samplers of a run: of the batches to train on, and of those to evaluate with, so many of
// each.
struct RunSamplers {
  std::unique_ptr<BatchSampler> train, train_eval, val_eval;
  int64_t train_eval_batches = 0, val_eval_batches = 0;
};

// The samplers of these settings, with sequences of T tokens. `data` must outlive them. With
// --rng torch, `torch` becomes the generator that all of them draw from, and must outlive them too.
RunSamplers MakeRunSamplers(const Dataset& data, const TrainConfig& config, int64_t T,
                            std::optional<TorchRng>& torch);

// Throws a kUsage Error if --rng torch is set and cannot reproduce the run: one that starts from a
// model (`from_model`), has several ranks (`ranks`), or has settings that nanoGPT lacks.
void RequireTorchRngFits(const GptConfig& model, const TrainConfig& config, bool from_model,
                         bool ranks);

}  // namespace folio
