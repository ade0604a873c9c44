#include "folio/train/checkpoint_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/dist/broadcast.h"
#include "folio/io/model_dir.h"

namespace folio {

CheckpointPolicy::CheckpointPolicy(const TrainConfig& config, Checkpoints checkpoints,
                                   const GptWeights& weights, const Optimizer& optimizer,
                                   const OptimizerShards& shards, OnSaved on_saved,
                                   std::function<double()> clock)
    : config_(config),
      group_(shards.group),
      on_saved_(std::move(on_saved)),
      clock_(std::move(clock)),
      writer_(std::move(checkpoints), weights, optimizer, shards) {}

std::string CheckpointPolicy::Newest(const std::string& which) const {
  if (saved_step_ < 0) return "there is no checkpoint yet";
  return fmt::format("{} checkpoint is {} (step {})", which,
                     (checkpoints().run() / kLastDir).string(), saved_step_);
}

double CheckpointPolicy::Seconds(double bytes) const {
  constexpr double kBytesPerSecond = 50e6;
  const double save = longest_save_ > 0 ? longest_save_ : bytes / kBytesPerSecond;
  return writer_.busy() ? 2 * save : save;
}

void CheckpointPolicy::Resumed(const TrainState& state, const std::filesystem::path& checkpoint) {
  begun_step_ = state.step;
  // Any other is of a way that the run has left, or damaged.
  saved_step_ = checkpoint == checkpoints().run() / kLastDir ? state.step : -1;
  if (saved_step_ < 0 && (group_ == nullptr || group_->first())) checkpoints().Forget(state.step);
  saved_best_loss_ = state.best_val_loss;
  saved_best_step_ = state.best_step;
}

void CheckpointPolicy::RolledBack(const TrainState& state) {
  saved_best_loss_ = state.best_val_loss;
  saved_best_step_ = state.best_step;
  postponed_ = best_due_ = false;
}

// A checkpoint of parameters whose next step was skipped may be worthless, and would take the place
// of a good one: it waits for a step that is made.
bool CheckpointPolicy::RegularDue(const TrainState& state, bool evaluated) {
  const bool due = config_.checkpoint_every > 0
                       ? state.step > 0 && state.step % config_.checkpoint_every == 0
                       : evaluated && state.step > 0;
  const bool kept = state.step > 0 && checkpoints().OfRoundStep(state.step);
  postponed_ = postponed_ || due || kept;
  if (state.health.skipped_in_a_row > 0) return false;
  return std::exchange(postponed_, false);
}

void CheckpointPolicy::Begin(const TrainState& state, bool last) {
  if (last) begun_step_ = state.step;
  writer_.Begin(state, std::exchange(best_due_, false), last, saved_step_);
}

void CheckpointPolicy::Finish(TrainState& state) {
  Finish(state, writer_.Wait());
}

void CheckpointPolicy::Finish(TrainState& state,
                              const std::optional<CheckpointWriter::Written>& written) {
  if (!written) return;
  if (written->error) {
    begun_step_ = saved_step_;
    state.best_val_loss = saved_best_loss_;
    state.best_step = saved_best_step_;
    try {
      std::rethrow_exception(written->error);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kRuntime) throw;
      if (group_ != nullptr && !group_->first()) return;
      LogWarning(fmt::format("no checkpoint of step {}: {}: {}; training goes on until the next",
                             written->step, error.what(), error.cause()));
    }
    return;
  }
  const double begin = clock_();
  if (written->best) {
    saved_best_loss_ = state.best_val_loss;
    saved_best_step_ = state.best_step;
  }
  if (written->last) {
    saved_step_ = written->step;
    if (on_saved_) on_saved_(written->step, checkpoints().run() / kLastDir);
  }
  longest_save_ = std::max(longest_save_, written->seconds + clock_() - begin);
}

void CheckpointPolicy::FinishLast(TrainState& state) {
  const std::optional<CheckpointWriter::Written> written = writer_.Wait();
  if (!written || !written->error) return Finish(state, written);
  try {
    std::rethrow_exception(written->error);
  } catch (const Error& error) {
    const std::string kept =
        saved_step_ >= 0 ? fmt::format("{} is of step {}",
                                       (checkpoints().run() / kLastDir).string(), saved_step_)
                         : "there is no earlier one";
    throw Error(error.kind(),
                fmt::format("the checkpoint of step {} is lost: {}", state.step, error.what()),
                fmt::format("{}; {}", error.cause(), kept), error.help());
  }
}

void CheckpointPolicy::RepairBest(TrainState& state, const std::function<bool()>& is_there) {
  const auto repair = [&] {
    return is_there() || checkpoints().RepairBest(state.best_step) ? "yes" : "no";
  };
  if (!state.best_val_loss || BroadcastResult(group_, repair) == "yes") return;
  state.best_val_loss = saved_best_loss_ = {};
  state.best_step = saved_best_step_ = 0;
}

}  // namespace folio
