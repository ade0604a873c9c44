#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "folio/base/rng.h"
#include "folio/data/batch_sampler.h"
#include "folio/data/dataset.h"
#include "folio/model/config.h"
#include "folio/train/config.h"

namespace folio {

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

// Throws a kUsage Error where --rng torch is asked for and cannot reproduce such a run, which
// begins from a model that is there, or has several ranks.
void RequireTorchRngFits(const GptConfig& model, const TrainConfig& config, bool from_model,
                         bool ranks);

}  // namespace folio
