#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "folio/api/model.h"
#include "folio/model/params.h"
#include "folio/run/run_config.h"
#include "folio/tensor/tensor.h"
#include "folio/text/tokenizer.h"
#include "folio/train/run_log.h"

namespace folio {

// Trains a model on batches that the caller supplies, one step for each call, in memory.
// TrainingRun (run/training_run.h) makes the same steps with a run directory, data from files and
// evaluations. The same settings and batches give the same numbers on any number of threads. Any
// number of threads may call it: calls wait for each other. In a child process that was forked
// while another thread was in a call, every call is a kUsage Error.
//
// It uses the settings of model, lora and train that are about the arithmetic of a step: size,
// batch_size (B, sequences that are computed at a time), grad_accumulation (the number of times B
// in a batch), context (T), learning rate and its schedule, optimizer, dropout, dtype, recompute,
// seed.
class BatchTrainer {
 public:
  // A new model, for which model.vocab_size is given, or one that begins as `from` does, which was
  // opened with float32 matrices; with lora.rank adapters are trained beside it. Completes
  // `settings`. Throws a kUsage Error where settings do not fit each other or the model, and a
  // kResource Error where memory does not suffice.
  explicit BatchTrainer(RunSettings& settings, const Model* from = nullptr);
  ~BatchTrainer();

  const GptConfig& config() const { return weights().config(); }
  int64_t B() const;
  int64_t T() const;
  int64_t step() const;  // steps done

  // Makes a step with a batch of S = B * grad_accumulation sequences: `inputs` and `targets` are
  // (S, T), targets usually the inputs one token later, -1 where nothing is to be predicted. A loss
  // or gradient that is not finite, or a spike (train/health.h), makes no update, which `skipped`
  // says. Throws a kUsage Error for a batch of another shape, ids that are no tokens and no target
  // at all, a kDiverged Error after train.max_skipped_steps in a row, and CallStopped where `stop`,
  // asked between operations, wants no more: the step then has not begun.
  StepMetrics Step(std::span<const int32_t> inputs, std::span<const int32_t> targets,
                   const StopRequest& stop = {});
  // The mean loss of any number of times B sequences, in nats per token, without dropout and
  // without learning.
  double Evaluate(std::span<const int32_t> inputs, std::span<const int32_t> targets,
                  const StopRequest& stop = {});

  // The parameters, whose numbers change with each step; the gradient of the last step, before
  // clipping, laid out as what is trained of them; views of both by the parameter's name. Throw a
  // kUsage Error with the nearest name for another.
  const GptWeights& weights() const;
  Tensor Parameter(std::string_view name) const;
  Tensor Gradient(std::string_view name);

  // Writes a model directory that everything opens, with the tokenizer where one is given (a kUsage
  // Error if it has more tokens than the model), with the adapters merged and beside it in
  // adapter/, and with what Resume needs. It appears as a whole; one that is there is replaced.
  // Throws a kRuntime Error.
  void Save(const std::filesystem::path& dir, const Tokenizer* tokenizer = nullptr) const;
  // Goes on from what Save wrote, byte for byte. Throws a kInput Error where it is another model's.
  void Resume(const std::filesystem::path& dir);
  // The model as it is now, to write with: a copy.
  std::unique_ptr<Model> Snapshot(std::shared_ptr<const Tokenizer> tokenizer) const;

 private:
  struct Impl;
  class Call;
  std::unique_ptr<Impl> impl_;
};

}  // namespace folio
