#include "folio/train/rollback.h"

#include <fmt/format.h>

#include "folio/base/error.h"
#include "folio/io/model_dir.h"
#include "folio/train/checkpoints.h"

namespace folio {

std::filesystem::path Rollback::Checkpoint(const std::filesystem::path& run, Group* group,
                                           const TrainState& state, bool allowed) const {
  std::filesystem::path good;
  try {
    good = BroadcastResult(group, [&] { return SoundCheckpoint(run, first_lost_step_).string(); });
  } catch (const Error&) {  // there is none
  }
  if (allowed && !good.empty()) return good;
  std::string where = "no checkpoint had been written", how;
  if (!good.empty()) {
    where = fmt::format("the last good checkpoint is {} (step {})", good.string(), SavedStep(good));
    how = ", or continue from the checkpoint with --resume";
    if (good != run / kLastDir) {
      how += fmt::format(" after removing {}", (run / kLastDir).string());
    }
  }
  const std::string before =
      state.rollbacks > 0
          ? fmt::format("; the run had returned to a checkpoint {} times", state.rollbacks)
          : "";
  throw Error(ErrorKind::kDiverged, fmt::format("training diverged at step {}", state.step),
              fmt::format("{}{}; {}", why_, before, where),
              fmt::format("lower train.learning_rate, raise train.warmup_steps or lower "
                          "train.grad_clip; then start again{}",
                          how));
}

void Rollback::Finish(const TrainState& before, TrainState& state) {
  // The step that was lost has seen its data: the next is what comes after it.
  state.data_skipped = before.data_skipped + before.step + 1 - state.step;
  state.rollbacks = before.rollbacks + 1;
  state.budget = before.budget;  // no time comes back
  state.best_val_loss = before.best_val_loss;
  state.best_step = before.best_step;
  note_ = fmt::format("from step {}: {}", before.step, std::exchange(why_, ""));
}

}  // namespace folio
