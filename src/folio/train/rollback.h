#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "folio/ranks/group.h"
#include "folio/train/train_state.h"

namespace folio {

// The return of a run to a checkpoint after its parameters were lost, as too many skipped steps or
// an evaluation have shown.
class Rollback {
 public:
  // The parameters are lost for the reason `why`, which is not empty; so are those of the
  // checkpoints of `step` and later steps.
  void Lose(std::string why, int64_t step) {
    why_ = std::move(why);
    first_lost_step_ = step;
  }
  bool due() const { return !why_.empty(); }

  // Returns the newest sound checkpoint of `run` before these. Throws a kDiverged Error if there is
  // none, or if the run, which is in `state`, may not return to it (`allowed`).
  std::filesystem::path Checkpoint(const std::filesystem::path& run, Group* group,
                                   const TrainState& state, bool allowed) const;
  // The run has returned from `before` to `state`, that of a checkpoint: `state` keeps the time and
  // the best evaluation of `before`, and the data since the checkpoint is skipped.
  void Finish(const TrainState& before, TrainState& state);

  // The step from which the run returned, and why; the second removes it.
  const std::string& note() const { return note_; }
  std::string TakeNote() { return std::exchange(note_, ""); }

 private:
  std::string why_ = {};
  int64_t first_lost_step_ = 0;
  std::string note_ = {};
};

}  // namespace folio
