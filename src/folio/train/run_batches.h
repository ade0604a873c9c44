#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "folio/base/rng.h"
#include "folio/data/batch_sampler.h"
#include "folio/data/dataset.h"
#include "folio/model/config.h"
#include "folio/model/gpt.h"
#include "folio/ranks/group.h"
#include "folio/train/config.h"
#include "folio/train/run_log.h"
#include "folio/train/train_state.h"

namespace folio {

// The number of batches of an evaluation.
struct EvaluationSize {
  int64_t train = 0, val = 0;
  bool whole = false;  // all windows of the held-out set in a row, and none drawn at random
};

// Returns train.eval_batches for each part, or all windows of a held-out set that has no more. Runs
// with PyTorch's random numbers always draw train.eval_batches. REQUIRES: context is set.
EvaluationSize EvaluationSizeOf(const TrainConfig& config, int64_t val_tokens);

// The number of steps that read all of the data once; below 1 if a step reads more.
// Conversations are counted in whole windows. REQUIRES: context is set, and `data` has more tokens.
double StepsPerEpoch(const Dataset& data, const TrainConfig& config);
// The number of steps of config.epochs, at least one. REQUIRES: likewise.
int64_t StepsOfEpochs(const Dataset& data, const TrainConfig& config);

// Throws a kUsage Error if --rng torch is set and cannot reproduce the run: one that starts from a
// model (`from_model`), has several ranks (`ranks`), or has settings that nanoGPT lacks.
void RequireTorchRngFits(const GptConfig& model, const TrainConfig& config, bool from_model,
                         bool ranks);

// The batches of a run: those that it trains on, and those of its evaluations.
class RunBatches {
 public:
  // Sequences have config.context tokens. `data` must outlive it.
  RunBatches(const Dataset& data, const TrainConfig& config);
  RunBatches(const RunBatches&) = delete;

  // Fetches micro-batch `micro` of the next step of `state`.
  void Fetch(const TrainState& state, int64_t micro) {
    train_->Fill(state.data_step(), micro, batch_);
  }
  const Batch& batch() const { return batch_; }  // the last one fetched
  // The number by which the sum of the next step's gradients is divided.
  int64_t Targets(const TrainState& state) const { return train_->Targets(state.data_step()); }

  // Returns the losses of an evaluation, with at most config.first_eval_batches of each part if
  // `is_short`; nothing if it was stopped, as if it had not begun (evaluate.h).
  std::optional<Evaluation> Evaluate(GptPass& pass, const GptParams& params, bool is_short,
                                     const std::function<bool()>& stop_requested,
                                     const std::function<void(int64_t, int64_t)>& on_progress,
                                     const Communicator& communicator);

  // The steps that are worthwhile on this data (schedule.h).
  int64_t worthwhile_steps() const { return worthwhile_steps_; }
  // With --rng torch, the generator that all batches are drawn from; else none.
  std::optional<TorchRng>& torch() { return torch_; }
  bool from_torch() const { return torch_.has_value(); }

 private:
  void DivideConversations(const Dataset& data, const TrainConfig& config);
  void DivideText(const Dataset& data, const TrainConfig& config);

  std::optional<TorchRng> torch_;
  std::unique_ptr<BatchSampler> train_, train_eval_, val_eval_;
  int64_t train_eval_batches_ = 0, val_eval_batches_ = 0;
  int64_t short_batches_;
  int64_t worthwhile_steps_;
  Batch batch_, eval_batch_;
};

}  // namespace folio
