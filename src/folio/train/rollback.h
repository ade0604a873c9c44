#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "folio/ranks/group.h"
#include "folio/train/train_state.h"

namespace folio {

// The way back of a run whose parameters are lost: from too many skipped steps, or an evaluation.
class Rollback {
 public:
  // The parameters are worth nothing any more for the reason `why`, which is not empty; the
  // checkpoints of `step` and of later steps are of such parameters.
  void Lose(std::string why, int64_t step) {
    why_ = std::move(why);
    first_lost_step_ = step;
  }
  bool due() const { return !why_.empty(); }

  // Returns the newest sound checkpoint of `run` from before. Throws a kDiverged Error if there is
  // none, or if the run, which now is in `state`, may not return to it (`allowed`).
  std::filesystem::path Checkpoint(const std::filesystem::path& run, Group* group,
                                   const TrainState& state, bool allowed) const;
  // The run has returned from `before` to `state`, a checkpoint's: what is known of the time and of
  // the best evaluation stays known, and the data since then is left out.
  void Finish(const TrainState& before, TrainState& state);

  // The sentence about the way back; the second removes it.
  const std::string& note() const { return note_; }
  std::string TakeNote() { return std::exchange(note_, ""); }

 private:
  std::string why_ = {};
  int64_t first_lost_step_ = 0;
  std::string note_ = {};
};

}  // namespace folio
