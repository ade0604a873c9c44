// What a Trainer has to do with checkpoints: going on from one, writing them, going back.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/log.h"
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
  Resume(Common([&] { return SoundCheckpoint(run_).string(); }));
}

// What the first rank finds, for all; its kInput Error is one of all too.
std::string Trainer::Common(const std::function<std::string()>& find) const {
  if (group_ == nullptr) return find();
  std::string found, failed;
  if (first()) {
    try {
      found = find();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInput) throw;
      failed = fmt::format("{}: {}", error.what(), error.cause());
    }
  }
  failed = group_->Broadcast(failed);
  if (!failed.empty()) throw InputError(failed);
  return group_->Broadcast(found);
}

void Trainer::Resume(const std::filesystem::path& checkpoint) {
  Load(checkpoint);
  if (config_.budget.empty()) state_.budget = {};
  if (state_.budget) config_.max_steps = state_.budget->steps;
  RepairBest([] { return false; });
  if (!std::filesystem::exists(run_ / kMetricsFile)) return;
  for (const StepMetrics& m : ReadRunLog(run_)) {
    if (m.step < state_.step) seconds_before_ = m.seconds;
    ended_ = m.step == state_.step && !m.loss && AllStepsDone();
  }
}

// Where RUN/best is not there as it was, it is made again, or the next evaluation is the best.
// `is_there` spares looking closely.
void Trainer::RepairBest(const std::function<bool()>& is_there) {
  const auto mend = [&] {
    return is_there() || writer_.checkpoints().RepairBest(state_.best_step) ? "yes" : "no";
  };
  if (!state_.best_val_loss || Common(mend) == "yes") return;
  state_.best_val_loss = saved_best_loss_ = {};
  state_.best_step = saved_best_step_ = 0;
}

// Parameters, moments and state as they were.
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
  begun_step_ = state_.step;
  // Any other is of a way that the run has left, or damaged.
  saved_step_ = checkpoint == run_ / kLastDir ? state_.step : -1;
  if (saved_step_ < 0 && first()) writer_.checkpoints().Forget(state_.step);
  saved_best_loss_ = state_.best_val_loss;
  saved_best_step_ = state_.best_step;
  if (torch_) {
    if (!state_.torch) {
      throw InputError(fmt::format("{}: the run began without --rng torch", checkpoint.string()),
                       "", "resume it with --rng folio");
    }
    torch_->set_state(*state_.torch_before_batch);
  }
}

// Begins to write RUN/best, if that is due, and RUN/last, if that is asked for and not there.
void Trainer::BeginSave(bool last) {
  last = last && begun_step_ != state_.step;
  if (!last && !best_due_) return;
  Saved(writer_.Wait());
  if (torch_) state_.torch = torch_->state();
  if (last) {
    begun_step_ = state_.step;
    if (log_) log_->Sync();  // the checkpoint stands for its lines
  }
  train_step_.WaitForWeights();
  RequireSameWeights();
  writer_.Begin(state_, std::exchange(best_due_, false), last, saved_step_);
}

void Trainer::Saved(const std::optional<CheckpointWriter::Written>& written) {
  if (!written) return;
  if (written->error) {
    begun_step_ = saved_step_;
    state_.best_val_loss = saved_best_loss_;
    state_.best_step = saved_best_step_;
    try {
      std::rethrow_exception(written->error);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kRuntime) throw;
      if (!first()) return;
      LogWarning(fmt::format("no checkpoint of step {}: {}: {}; training goes on until the next",
                             written->step, error.what(), error.cause()));
    }
    return;
  }
  const double begin = SteadySeconds();
  if (written->best) {
    saved_best_loss_ = state_.best_val_loss;
    saved_best_step_ = state_.best_step;
  }
  if (written->last) {
    saved_step_ = written->step;
    if (hooks_.on_checkpoint) hooks_.on_checkpoint(written->step, run_ / kLastDir);
  }
  longest_save_ = std::max(longest_save_, written->seconds + SteadySeconds() - begin);
}

// The last checkpoint: without it the run may not end well.
void Trainer::SaveToEnd() {
  Saved(writer_.Wait());
  BeginSave(true);
  const std::optional<CheckpointWriter::Written> written = writer_.Wait();
  if (!written || !written->error) return Saved(written);
  try {
    std::rethrow_exception(written->error);
  } catch (const Error& error) {
    const std::string kept =
        saved_step_ >= 0 ? fmt::format("{} is of step {}", (run_ / kLastDir).string(), saved_step_)
                         : "there is no earlier one";
    throw Error(error.kind(),
                fmt::format("the checkpoint of step {} is lost: {}", state_.step, error.what()),
                fmt::format("{}; {}", error.cause(), kept), error.help());
  }
}

// Goes back to the newest checkpoint whose next step was made, and leaves out the data since then.
bool Trainer::RollBackIfLost() {
  if (lost_.empty()) return false;
  Saved(writer_.Wait());
  std::filesystem::path good;
  try {
    good = Common([&] { return SoundCheckpoint(run_, first_lost_step_).string(); });
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
  state_.best_val_loss = saved_best_loss_ = before.best_val_loss;
  state_.best_step = saved_best_step_ = before.best_step;
  rollback_ = fmt::format("from step {}: {}", before.step, std::exchange(lost_, ""));
  checkpoint_postponed_ = best_due_ = false;
  if (first()) log_.emplace(run_, state_.step);
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
