#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "folio/backend/decorated_backends.h"
#include "folio/data/dataset.h"
#include "folio/model_files/stored_model.h"
#include "folio/ranks/group.h"
#include "folio/text/tokenizer.h"
#include "folio/train/checkpoints.h"
#include "folio/train/config.h"
#include "folio/train/judged_step.h"
#include "folio/train/ranks.h"
#include "folio/train/rollback.h"
#include "folio/train/run_batches.h"
#include "folio/train/run_clock.h"
#include "folio/train/run_log.h"
#include "folio/train/train_state.h"
#include "folio/train/train_step.h"

namespace folio {

// T of a run: train.context, or the model's n_positions where it is 0. Throws a kUsage Error if it
// is longer than that.
int64_t ContextOf(const GptConfig& model, const TrainConfig& config);

// The callbacks of a trainer while it runs; any of them may be empty.
struct TrainerHooks {
  std::function<void(const StepMetrics&)> on_step = {};  // after each step, made or skipped
  std::function<void(int64_t step, const Evaluation&)> on_evaluation = {};
  // `done` of `total` batches of an evaluation.
  std::function<void(int64_t done, int64_t total)> on_evaluation_progress = {};
  // RUN/last of `step` is written: by a thread, so that this may be called after a later step.
  std::function<void(int64_t step, const std::filesystem::path&)> on_checkpoint = {};
  // The run returned to a checkpoint: the next step is `to`, and later ones are repeated.
  std::function<void(int64_t from, int64_t to, const std::string& why)> on_rollback = {};
  // Called every sample_every steps; if ranks share the layers of a model, on the first rank.
  std::function<void(int64_t step, const GptWeights&)> on_sample = {};
  int64_t sample_every = 0;
  int64_t layer_norms_every = 0;              // steps whose metrics have layer_norms; 0 for none
  bool rank_seconds = false;                  // metrics have rank_seconds
  std::function<bool()> stop_requested = {};  // called after each step and batch of an evaluation
  // Called between the operations of a step: true drops the step, as if it had not begun, and
  // stops. For one rank alone, and not with PyTorch's random numbers.
  std::function<bool()> abandon_requested = {};
  std::function<bool()> checkpoint_requested = {};  // called after each step; true once per request
  // Called on the first rank of a run with train.budget when the number of its steps has changed.
  std::function<void(int64_t steps)> on_plan = {};
  // The clock of the run, in seconds, and its time when the budget began; if not set, SteadySeconds
  // and the time when Run is called.
  std::function<double()> clock = {};
  std::optional<double> budget_began = {};
};

// Trains a model on a data set and writes the run directory: metrics.jsonl, the checkpoints
// (checkpoints.h), and base/ for a model with adapters, which checkpoints contain merged; with
// train.save "adapter" they contain only the adapters. Results depend on the configurations and on
// the instruction set in use, not on threads. A resumed run has the same bits as an uninterrupted
// one if both are the same in all its parts; train.dtype "auto" may differ between machines
// (config.h).
//
// With a group, the ranks' trainers share the micro-batches of each step and the batches of each
// evaluation; only the first writes. Hooks may differ between ranks, except layer_norms_every and
// sample_every; if one rank asks to stop or for a checkpoint, all do it after the same step. With
// train.tensor_parallel N, rank r has shard r % N of the model; checkpoints contain the whole
// model.
class Trainer {
 public:
  // Allocates all memory and initialises the weights: from `from`, if it is not null
  // (ReadWeightsInto says which models are possible). `backend`, `data`, the tokenizer, whose files
  // checkpoints contain, and the group, null for one rank alone, must outlive it; the run directory
  // exists. Throws a kUsage Error if the configurations do not fit each other, and a kInput Error
  // if the data does not fit them. With train.save "adapter", `from` is required for a resumed run
  // too, `base_sha256` is its WeightsSha256, and train.init is its absolute path.
  Trainer(Backend& backend, const GptConfig& model, const TrainConfig& config, const Dataset& data,
          std::filesystem::path run, TrainerHooks hooks = {}, const Tokenizer* tokenizer = nullptr,
          const StoredModel* from = nullptr, Group* group = nullptr,
          const std::string& base_sha256 = {});
  Trainer(const Trainer&) = delete;

  // Continues from SoundCheckpoint(run). Throws a kInput Error if there is none, or if it is of
  // another model.
  void Resume();
  // Continues from this checkpoint, likewise.
  void Resume(const std::filesystem::path& checkpoint);

  // Trains until max_steps, patience, max_tokens, max_time or a request ends it, and writes a
  // checkpoint. A step whose loss or gradient is not finite or a spike (health.h) makes no update:
  // parameters, moments and AdamW's count of steps stay unchanged, while the schedule and the data
  // advance. If more than max_skipped_steps are skipped in a row, or an evaluation shows that the
  // parameters are lost, the run returns to the newest checkpoint before that and skips the data
  // since then. Throws a kDiverged Error if there is none, if it has returned max_rollbacks times,
  // or with PyTorch's random numbers. Warns if a checkpoint cannot be written; for the last one it
  // throws a kRuntime Error.
  TrainResult Run();

  const GptWeights& weights() const { return weights_; }  // or this rank's shard of them
  int64_t step() const { return state_.step; }            // steps done
  // train.max_steps, or with train.budget the number of steps as corrected by the clock.
  int64_t max_steps() const { return config_.max_steps; }
  // Returns true if the resumed run had already ended, and its log is complete.
  bool ended() const { return ended_; }
  // The name of the parameter at this address, or "gradient of <name>"; "" for neither.
  std::string NameOf(const std::byte* at) const;

 private:
  void FetchBatch(int64_t turn);
  std::optional<StepMetrics> TakeStep();  // none for a step that was dropped
  void Stamp(StepMetrics& metrics) const;
  void Accumulate();
  double MeanStepLoss();
  void Sample();
  void Poll();
  void SetSteps(int64_t steps);
  bool AllStepsDone() const;
  bool OutOfTime() const;
  bool StopFlagged() const { return flags_.stop || flags_.out_of_time; }
  std::string EndedBy() const;
  bool EvaluationDue() const;
  bool Evaluate();  // returns false, and changes nothing, if it was asked to stop meanwhile
  void Load(const std::filesystem::path& checkpoint);
  void BeginSave(bool asked);
  void SaveToEnd();
  // Returns to a checkpoint, or throws, if the parameters are lost.
  bool RollBackIfLost();

  TrainConfig config_;
  std::filesystem::path run_;
  TrainerHooks hooks_;
  RankControl ranks_;
  WatchedBackend watched_;
  GptWeights weights_;
  TrainStep train_step_;
  LayerNormMeter layer_norms_;
  RunBatches batches_;               // the batch fetched last is the next to be trained on
  std::vector<double> step_losses_;  // of this rank: sum and number of targets by micro-batch
  TrainState state_;
  std::optional<RunLog> log_;  // while it runs, of the first rank
  RankFlags flags_;            // of all ranks, as of the last Poll
  bool ended_ = false;
  Rollback rollback_;
  RunClock clock_;
  std::optional<double> first_val_loss_;  // held-out loss before the first step of the run
  CheckpointPolicy policy_;               // last: its destructor reads the other members
};

}  // namespace folio
