// How a Trainer goes on from a checkpoint, saves one, and rolls back to one.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "folio/base/error.h"
#include "folio/dist/broadcast.h"
#include "folio/io/checksums.h"
#include "folio/model/adapter.h"
#include "folio/model/checkpoint.h"
#include "folio/model/weight_init.h"
#include "folio/train/trainer.h"

namespace folio {
namespace {

// Throws unless a run of `saved` can go on as `wanted`: all but dropout and the first weights must
// be the same.
void RequireSameModel(GptConfig saved, GptConfig wanted, const std::string& where) {
  for (double GptConfig::*rate : GptConfig::DropoutRates()) saved.*rate = wanted.*rate;
  saved.init = wanted.init;
  saved.initializer_range = wanted.initializer_range;
  saved.init_zero_positions = wanted.init_zero_positions;
  saved.init_scaled_residuals = wanted.init_scaled_residuals;
  const std::vector<Field> had = saved.Fields(), has = wanted.Fields();
  for (size_t i = 0; i < had.size(); ++i) {
    if (FieldText(had[i]) == FieldText(has[i])) continue;
    throw InputError(fmt::format("{} is another model", where),
                     fmt::format("its {} is {}, the settings say {}", had[i].key, FieldText(had[i]),
                                 FieldText(has[i])),
                     "resume with the settings that the run began with");
  }
}

}  // namespace

void Trainer::Resume() {
  Resume(BroadcastResult(ranks_.group(), [&] { return SoundCheckpoint(run_).string(); }));
}

void Trainer::Resume(const std::filesystem::path& checkpoint) {
  Load(checkpoint);
  if (config_.budget.empty()) state_.budget = {};
  if (state_.budget) config_.max_steps = state_.budget->steps;
  policy_.RepairBest(state_, [] { return false; });
  if (!std::filesystem::exists(run_ / kMetricsFile)) return;
  for (const StepMetrics& m : ReadRunLog(run_)) {
    if (m.step < state_.step) seconds_before_ = m.seconds;
    ended_ = m.step == state_.step && !m.loss && AllStepsDone();
  }
}

// Parameters, the state of the optimizer and that of the run become as they were.
void Trainer::Load(const std::filesystem::path& checkpoint) {
  const bool adapters = config_.lora.on();
  const std::filesystem::path model = adapters ? run_ / kBaseDir : checkpoint;
  if (adapters) VerifyChecksums(model);
  // A shard takes its numbers from where they lie: nobody holds the whole model.
  const auto saved =
      weights_.table().shard().whole() ? LoadModel(model) : MapWeights(OpenModelDir(model));
  RequireSameModel(saved->config(), weights_.config(), model.string());
  InitWeightsFrom(*saved, weights_);
  if (adapters) LoadAdapter(checkpoint / kAdapterDir, weights_);
  state_ = LoadTrainState(checkpoint, weights_.table(), train_step_.optimizer(),
                          &train_step_.shards(), train_step_.data_communicator().rank());
  policy_.Resumed(state_, checkpoint);
  if (torch_) {
    if (!state_.torch) {
      throw InputError(fmt::format("{}: the run began without --rng torch", checkpoint.string()),
                       "", "resume it with --rng folio");
    }
    torch_->set_state(*state_.torch_before_batch);
  }
}

// Begins to write RUN/best, if that is due, and RUN/last, if that is asked for and not there.
void Trainer::BeginSave(bool asked) {
  const bool last = policy_.LastMissing(state_, asked);
  if (!last && !policy_.best_due()) return;
  policy_.Finish(state_);
  if (torch_) state_.torch = torch_->state();
  if (last && log_) log_->Sync();  // the checkpoint stands for its lines
  train_step_.WaitForWeights();
  ranks_.RequireSameBytes(weights_.flat(), train_step_.tensor_communicator().size(), state_.step,
                          policy_.Newest("the last good"));
  policy_.Begin(state_, last);
}

// The last checkpoint: without it the run may not end well.
void Trainer::SaveToEnd() {
  policy_.Finish(state_);
  BeginSave(true);
  policy_.FinishLast(state_);
}

// Goes back to the newest checkpoint whose next step was made, and leaves out the data since then.
bool Trainer::RollBackIfLost() {
  if (lost_.empty()) return false;
  policy_.Finish(state_);
  std::filesystem::path good;
  try {
    good = BroadcastResult(ranks_.group(),
                           [&] { return SoundCheckpoint(run_, first_lost_step_).string(); });
  } catch (const Error&) {
    Diverged("");  // there is none
  }
  if (torch_ || state_.rollbacks >= config_.max_rollbacks) Diverged(good);
  const TrainState before = state_;
  Load(good);
  // The step that was lost has seen its data: the next is what comes after it.
  state_.data_skipped = before.data_skipped + before.step + 1 - state_.step;
  state_.rollbacks = before.rollbacks + 1;
  state_.budget = before.budget;  // no time comes back
  state_.best_val_loss = before.best_val_loss;
  state_.best_step = before.best_step;
  rollback_ = fmt::format("from step {}: {}", before.step, std::exchange(lost_, ""));
  policy_.RolledBack(state_);
  if (ranks_.first()) log_.emplace(run_, state_.step);
  if (hooks_.on_rollback) hooks_.on_rollback(before.step, state_.step, rollback_);
  FetchBatch(0);
  return true;
}

void Trainer::Diverged(const std::filesystem::path& good) const {
  std::string where = "no checkpoint was written before that", how;
  if (!good.empty()) {
    where = fmt::format("the last good checkpoint is {} (step {})", good.string(), SavedStep(good));
    how = ", or go on from the checkpoint with --resume";
    if (good != run_ / kLastDir) {
      how += fmt::format(" once {} is removed", (run_ / kLastDir).string());
    }
  }
  const std::string before =
      state_.rollbacks > 0 ? fmt::format("; the run had gone back {} times", state_.rollbacks) : "";
  throw Error(ErrorKind::kDiverged, fmt::format("training diverged at step {}", state_.step),
              fmt::format("{}{}; {}", lost_, before, where),
              fmt::format("lower train.learning_rate, raise train.warmup_steps or lower "
                          "train.grad_clip; then start again{}",
                          how));
}

}  // namespace folio
