#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "folio/dist/group.h"
#include "folio/train/checkpoint_writer.h"
#include "folio/train/config.h"
#include "folio/train/train_state.h"

namespace folio {

// The policy of saving a run, and what is known of the checkpoints that it has: which is due, which
// was begun, which is written. The ranks of a group call the same functions in the same order.
class CheckpointPolicy {
 public:
  // Told of each RUN/last that is written.
  using OnSaved = std::function<void(int64_t step, const std::filesystem::path& dir)>;

  // `config` and what the writer refers to must outlive it. `clock` is that of the run, in seconds.
  CheckpointPolicy(const TrainConfig& config, Checkpoints checkpoints, const GptWeights& weights,
                   const Optimizer& optimizer, const OptimizerShards& shards, OnSaved on_saved,
                   std::function<double()> clock);

  const Checkpoints& checkpoints() const { return writer_.checkpoints(); }
  CheckpointWriter& writer() { return writer_; }
  bool begun() const { return begun_step_ >= 0; }
  // "the last checkpoint is RUN/last (step 7)" with `which` as "the last"; or there is none yet.
  std::string Newest(const std::string& which) const;
  // About how long the next checkpoint takes, if it has to wait for one that is under way: as long
  // as the longest so far, or at 50 MB/s before there was one.
  double Seconds(double bytes) const;

  // The run goes on from this checkpoint, of this state.
  void Resumed(const TrainState& state, const std::filesystem::path& checkpoint);
  // The run has rolled back to the state of a checkpoint; the best so far stays the best.
  void RolledBack(const TrainState& state);
  // The evaluation of this step is the best so far: RUN/best is due.
  void MarkBest() { best_due_ = true; }
  // A checkpoint of this step that was begun before its evaluation does not know of it.
  void ForgetBegun() { begun_step_ = -1; }

  // Returns whether RUN/last is due at this step, which was evaluated or not.
  bool RegularDue(const TrainState& state, bool evaluated);
  // Returns whether RUN/last is `asked` for and no checkpoint of this step was begun.
  bool LastMissing(const TrainState& state, bool asked) const {
    return asked && begun_step_ != state.step;
  }
  bool best_due() const { return best_due_; }

  // Begins to write RUN/best, if that is due, and RUN/last, if `last`. REQUIRES: Finish.
  void Begin(const TrainState& state, bool last);
  // Waits for the checkpoint that was begun, if one was. Where it could not be written, `state`
  // takes back what it says of the best, and training goes on with a warning.
  void Finish(TrainState& state);
  // Waits likewise at the end of a run, where it is a kRuntime Error.
  void FinishLast(TrainState& state);
  // Makes RUN/best again where it is not there as it was; if it cannot, the next evaluation is the
  // best. `is_there` spares looking closely.
  void RepairBest(TrainState& state, const std::function<bool()>& is_there);

 private:
  void Finish(TrainState& state, const std::optional<CheckpointWriter::Written>& written);

  const TrainConfig& config_;
  Group* group_;
  OnSaved on_saved_;
  std::function<double()> clock_;
  // Steps of RUN/last, if that is sound and on the way that led here, and of the checkpoint that
  // was begun since; -1 for none.
  int64_t saved_step_ = -1, begun_step_ = -1;
  bool postponed_ = false;  // a checkpoint was due while steps were skipped
  bool best_due_ = false;
  std::optional<double> saved_best_loss_ = {};  // of RUN/best
  int64_t saved_best_step_ = 0;
  double longest_save_ = 0;
  CheckpointWriter writer_;  // last: it reads the others while it ends
};

}  // namespace folio
