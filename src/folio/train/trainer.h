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

// The news and questions of a trainer while it runs; any of them may be empty.
struct TrainerHooks {
  std::function<void(const StepMetrics&)> on_step = {};  // after each step, made or skipped
  std::function<void(int64_t step, const Evaluation&)> on_evaluation = {};
  // `done` of `total` batches of an evaluation.
  std::function<void(int64_t done, int64_t total)> on_evaluation_progress = {};
  // RUN/last is there. Called after a later step than that: a thread writes it.
  std::function<void(int64_t step, const std::filesystem::path&)> on_checkpoint = {};
  // The run went back: the next step is `to`, and steps and samples from there on come again.
  std::function<void(int64_t from, int64_t to, const std::string& why)> on_rollback = {};
  // Every sample_every steps, of the first rank where ranks share the layers of a model.
  std::function<void(int64_t step, const GptWeights&)> on_sample = {};
  int64_t sample_every = 0;
  int64_t layer_norms_every = 0;              // steps whose metrics have layer_norms; 0 for none
  bool rank_seconds = false;                  // metrics have rank_seconds
  std::function<bool()> stop_requested = {};  // asked after each step and batch of an evaluation
  // Asked between the operations of a step: true drops the step, as if it had not begun, and stops.
  // For one rank alone, and not with PyTorch's random numbers.
  std::function<bool()> abandon_requested = {};
  std::function<bool()> checkpoint_requested = {};  // likewise; true once for each request
  // Tells the first rank of a run with train.budget that it is now to make so many steps.
  std::function<void(int64_t steps)> on_plan = {};
  // The clock of the run, in seconds, and its time when the budget began; not set: SteadySeconds,
  // and the time when Run is called.
  std::function<double()> clock = {};
  std::optional<double> budget_began = {};
};

// Trains a model on a data set and keeps the run directory: metrics.jsonl, the checkpoints
// (checkpoints.h), and base/ for a model with adapters, which are merged in them; but with
// train.save "adapter" only the adapters. Results
// depend on the configurations and on the instruction set in use, not on threads. A resumed run
// goes on bit for bit if both are its first part's; train.dtype "auto" may mean another on another
// machine (config.h).
//
// With a group, the ranks' trainers share the micro-batches of each step and the batches of each
// evaluation; the first alone writes. Hooks are of its own rank, but for these: all ranks have the
// same layer_norms_every and sample_every, and what one asks for, to stop or a checkpoint, is done
// by all after the same step. With train.tensor_parallel N, rank r has shard r % N of the model,
// and checkpoints have the whole of it.
class Trainer {
 public:
  // Allocates everything and gives the weights their first values: those of `from`, if that is not
  // null (ReadWeightsInto says which models it may be). `backend`, `data` and the
  // tokenizer, whose files go into the checkpoints, must outlive it; the run directory exists.
  // Throws a kUsage Error where the configurations do not fit each other and a kInput Error where
  // the data does not fit them. A group must outlive it; null for one rank alone. With train.save
  // "adapter" there is a `from` also where a run is resumed, `base_sha256` is its WeightsSha256,
  // and train.init is its absolute path.
  Trainer(Backend& backend, const GptConfig& model, const TrainConfig& config, const Dataset& data,
          std::filesystem::path run, TrainerHooks hooks = {}, const Tokenizer* tokenizer = nullptr,
          const StoredModel* from = nullptr, Group* group = nullptr,
          const std::string& base_sha256 = {});
  Trainer(const Trainer&) = delete;

  // Goes on from SoundCheckpoint(run). Throws a kInput Error if there is none or if it is another
  // model's.
  void Resume();
  // Goes on from this checkpoint, likewise.
  void Resume(const std::filesystem::path& checkpoint);

  // Trains to max_steps, to what patience, max_tokens or max_time say, or until asked to stop, and
  // leaves a checkpoint. A step whose loss or gradient is not finite or a spike (health.h) makes no
  // update: parameters, moments and AdamW's count of steps stay as they were, the schedule and the
  // data go on. If more than max_skipped_steps are skipped in a row, or an evaluation shows that
  // the parameters are lost, the run goes back to the newest checkpoint from before, if there is
  // one, and leaves out the data since; it throws a kDiverged Error if it did so max_rollbacks
  // times, or has PyTorch's random numbers. A checkpoint that cannot be written is warned of, the
  // last one is a kRuntime Error.
  TrainResult Run();

  const GptWeights& weights() const { return weights_; }  // or this rank's shard of them
  int64_t step() const { return state_.step; }            // steps done
  // config's, or what the clock has made of them. A resumed run goes on with those it had.
  int64_t max_steps() const { return config_.max_steps; }
  // Returns whether the run that was resumed had come to its end, with nothing of that missing in
  // its log.
  bool ended() const { return ended_; }
  // The parameter that lies there, or whose gradient does: "gradient of <name>"; "" for neither.
  std::string NameOf(const std::byte* at) const;

 private:
  void FetchBatch(int64_t turn);
  std::optional<StepMetrics> TakeStep();  // none for a step that was dropped
  void Stamp(StepMetrics& metrics) const;
  double Accumulate();
  void Sample();
  void Poll();
  void SetSteps(int64_t steps);
  bool AllStepsDone() const;
  bool OutOfTime() const;
  bool StopFlagged() const { return flags_.stop || flags_.out_of_time; }
  std::string EndedBy() const;
  bool EvaluationDue() const;
  bool Evaluate();  // false if asked to stop before it was through: it then leaves no trace
  void Load(const std::filesystem::path& checkpoint);
  void BeginSave(bool asked);
  void SaveToEnd();
  // Goes back to a checkpoint where the parameters are lost, or throws.
  bool RollBackIfLost();

  TrainConfig config_;
  std::filesystem::path run_;
  TrainerHooks hooks_;
  RankControl ranks_;
  WatchedBackend watched_;
  GptWeights weights_;
  TrainStep train_step_;
  LayerNormMeter layer_norms_;
  RunBatches batches_;               // the one that was fetched last is to be trained on next
  std::vector<double> step_losses_;  // of this rank: sum and number of targets by micro-batch
  TrainState state_;
  std::optional<RunLog> log_;  // while it runs, of the first rank
  RankFlags flags_;            // of all ranks, as of the last Poll
  bool ended_ = false;
  Rollback rollback_;
  RunClock clock_;
  std::optional<double> first_val_loss_;  // held-out loss before the first step of the run
  CheckpointPolicy policy_;               // last: its writer reads the others while it ends
};

}  // namespace folio
