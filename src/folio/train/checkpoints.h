#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "folio/io/posix.h"
#include "folio/model/params.h"
#include "folio/model_files/base_model.h"
#include "folio/ranks/group.h"
#include "folio/text/tokenizer.h"
#include "folio/train/buckets.h"
#include "folio/train/config.h"
#include "folio/train/optimizer.h"
#include "folio/train/train_state.h"

namespace folio {

// Earlier checkpoints of a run are kept here, each in a directory named by its step.
inline constexpr char kStepsDir[] = "steps";
// Several ranks write the state of the optimizer (train_state.h) to this file in the directory
// of the run.
inline constexpr char kMomentsFile[] = ".moments";

// Writes a model into an existing directory: `weights`, or, unless `merged` is null, `merged` and
// the adapters of `weights` in adapter/, which name `base` as their model. Writes the tokenizer
// too, unless it is null.
void SaveTrainedModel(const std::filesystem::path& dir, const GptWeights& weights,
                      const GptWeights* merged, const Tokenizer* tokenizer,
                      const std::string& base = {});

// The contents of a checkpoint, which must not change while it is written.
struct CheckpointParts {
  const GptWeights& weights;              // as they are trained
  const GptWeights* merged;               // with merged adapters; null for a model without adapters
  std::span<const StateArray> optimizer;  // the optimizer's state for the whole model
  const TrainState& state;
  std::filesystem::path written = {};  // the file of the optimizer's state, if it is there already
};

// The checkpoints of a run: RUN/best contains only the model, RUN/last also the training state, and
// RUN/steps/STEP is the RUN/last of that step. A checkpoint is complete or absent: it is written to
// a temporary directory with its checksums (io/checksums.h), flushed and renamed; only then are
// checkpoints that need not be kept removed.
class Checkpoints {
 public:
  struct Options {
    int64_t keep_last = 1;                 // the number of newest ones; 1: RUN/last alone
    int64_t keep_every = 0;                // keeps multiples of so many steps, too; 0: none
    BaseModel base = {};                   // the model that adapters are for, as they name it
    bool adapters = false;                 // only adapters are written (train.save)
    const Tokenizer* tokenizer = nullptr;  // written into each of them; may be null
  };

  Checkpoints(std::filesystem::path run, Options options);

  // Writes RUN/base, the model that adapters are trained for. Throws as Write does.
  void WriteBase(const GptWeights& weights) const;
  // Writes RUN/best, RUN/last or both. `previous` is the step of RUN/last before, -1 if there is no
  // sound one. Throws a kRuntime Error if it cannot write; RUN/last is then unchanged.
  void Write(const CheckpointParts& parts, bool best, bool last, int64_t previous) const;
  // Returns true if RUN/best is missing from a run whose other files exist.
  bool LostBest() const;
  // Returns true if RUN/best, the model of `step`, is sound. If it is missing or damaged, it is
  // first restored from a sound checkpoint of that step, with a warning.
  bool RepairBest(int64_t step) const;
  const std::filesystem::path& run() const { return run_; }
  bool adapters() const { return options_.adapters; }
  // Returns true if keep_every keeps the checkpoint of this step.
  bool OfRoundStep(int64_t step) const;
  // Removes the checkpoints of later steps from RUN/steps: the run went back to this one.
  void Forget(int64_t step) const { Prune(step + 1); }

 private:
  void WriteBoth(const CheckpointParts& parts, bool best, bool last, int64_t previous) const;
  void Keep(int64_t step) const;
  void Prune(int64_t newest) const;

  std::filesystem::path run_;
  Options options_;
  GuardedDirectory inside_;
};

// The checkpoints from which a run can continue, newest first: RUN/last, then those of RUN/steps.
std::vector<std::filesystem::path> FindCheckpoints(const std::filesystem::path& run);

// The newest of them that is of a step before `end` and sound: its files exist and match their
// checksums. Warns of damaged ones. Throws a kInput Error if there is none: that of the newest one
// if all are damaged.
std::filesystem::path SoundCheckpoint(const std::filesystem::path& run,
                                      int64_t end = std::numeric_limits<int64_t>::max());

// The ranks that write a checkpoint together.
struct CheckpointRanks {
  Group* group = nullptr;  // null for one rank alone
  bool same_files = true;  // false once a rank did not see the file of another
};

// Writes checkpoints, one at a time, while training continues: copies what training changes, and a
// thread writes the copy. If memory has no room for a copy, training waits instead.
//
// Several ranks write their pieces of the optimizer's state into one file (train_state.h), then the
// first rank writes the rest. If they do not see the same files, or have shards of the model, the
// first rank gathers the pieces. All ranks call the same functions in the same order and get the
// same results.
class CheckpointWriter {
 public:
  // The outcome of a checkpoint.
  struct Written {
    int64_t step = 0;
    bool best = false, last = false;
    double seconds = 0;             // from Begin to the end of Wait
    std::exception_ptr error = {};  // null: it was written
  };

  // All must outlive it. Without `beside`, for measurements and tests, no copies are taken.
  CheckpointWriter(Checkpoints checkpoints, const GptWeights& weights, const Optimizer& optimizer,
                   const CheckpointRanks& ranks = {}, bool beside = true);
  // The bytes of its copy of a model and its optimizer's state, or of a shard of them.
  static uint64_t BytesOfCopy(const ParamTable& table, const OptimizerSettings& optimizer,
                              Dtype dtype = Dtype::kF32);
  // Returns true if it takes a copy of so many bytes with so many available; else training waits.
  static bool HasRoomForCopy(uint64_t bytes, uint64_t available);

  // Waits for the thread.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;

  // Begins to write RUN/best, RUN/last or both (Checkpoints::Write). REQUIRES: not busy.
  void Begin(const TrainState& state, bool best, bool last, int64_t previous);
  bool busy() const { return under_way_.has_value(); }
  // Returns true while this rank writes its pieces of the checkpoint that was begun. As soon as no
  // rank does, all call FinishPieces.
  bool writes_pieces() const;
  void FinishPieces();
  // Returns true if this rank knows that the checkpoint that was begun is written, so that Wait
  // returns at once.
  bool done() const;
  // Waits for the checkpoint that was begun, and returns its outcome; nothing if none was begun.
  std::optional<Written> Wait();

  const Checkpoints& checkpoints() const { return checkpoints_; }

 private:
  struct Copy;

  bool first() const { return IsFirst(ranks_.group); }
  bool MakeRoom();
  bool BeginPieces();
  void GatherState();
  void GatherWholeModel(bool state);

  Checkpoints checkpoints_;
  const GptWeights& weights_;
  const Optimizer& optimizer_;
  CheckpointRanks ranks_;
  bool beside_;
  std::exception_ptr failed_;  // the error of the checkpoint under way before its thread began
  std::unique_ptr<Copy> copy_;
  std::optional<SharedOptimizerFile> file_;
  std::vector<std::vector<float>> own_state_;  // copies of this rank's pieces
  std::function<void()> rest_;  // writes the first rank's part, after the pieces of all ranks
  std::optional<Written> under_way_;
  double began_ = 0;
  // Last, as their destructors wait for the threads, which read the other members.
  std::future<void> pieces_, written_;
};

// Decides when checkpoints of a run are due, and knows which of them are begun and written. The
// ranks of a group call the same functions in the same order.
class CheckpointPolicy {
 public:
  // Called after each RUN/last that is written.
  using OnSaved = std::function<void(int64_t step, const std::filesystem::path& dir)>;

  // `config` and what the writer refers to must outlive it.
  CheckpointPolicy(const TrainConfig& config, Checkpoints checkpoints, const GptWeights& weights,
                   const Optimizer& optimizer, Group* group, OnSaved on_saved,
                   std::function<double()> clock);

  const Checkpoints& checkpoints() const { return writer_.checkpoints(); }
  CheckpointWriter& writer() { return writer_; }
  bool begun() const { return begun_step_ >= 0; }
  // "the last checkpoint is RUN/last (step 7)" with `which` as "the last"; or there is none yet.
  std::string Newest(const std::string& which) const;
  // An estimate of the seconds until the next checkpoint is written, after one that is under way:
  // each takes as long as the longest so far, or 50 MB/s before there was one.
  double Seconds(double bytes) const;

  // The run continues from this checkpoint, with this state.
  void Resumed(const TrainState& state, const std::filesystem::path& checkpoint);
  // The run has rolled back to the state of a checkpoint; the best so far stays the best.
  void RolledBack(const TrainState& state);
  // The evaluation of this step is the best so far: RUN/best is due.
  void MarkBest() { best_due_ = true; }
  // A checkpoint of this step that was begun before its evaluation lacks it, and does not count.
  void ForgetBegun() { begun_step_ = -1; }

  // Returns true if RUN/last is due at this step; `evaluated` if the step was evaluated.
  bool RegularDue(const TrainState& state, bool evaluated);
  // Returns true if RUN/last is `asked` for and no checkpoint of this step was begun.
  bool LastMissing(const TrainState& state, bool asked) const {
    return asked && begun_step_ != state.step;
  }
  bool best_due() const { return best_due_; }

  // Begins to write RUN/best, if that is due, and RUN/last, if `last`. REQUIRES: Finish.
  void Begin(const TrainState& state, bool last);
  // Waits for the checkpoint that was begun, if one was. If it could not be written, the best
  // evaluation of `state` becomes that of RUN/best again, and training continues with a warning.
  void Finish(TrainState& state);
  // Waits likewise at the end of a run, where it is a kRuntime Error.
  void FinishLast(TrainState& state);
  // Restores a missing or damaged RUN/best; if that is impossible, the next evaluation counts as
  // the best. Does not check RUN/best if `is_there` returns true.
  void RepairBest(TrainState& state, const std::function<bool()>& is_there);

 private:
  void Finish(TrainState& state, const std::optional<CheckpointWriter::Written>& written);

  const TrainConfig& config_;
  Group* group_;
  OnSaved on_saved_;
  std::function<double()> clock_;  // of the run, in seconds
  // The steps of RUN/last, if it is sound and the run has not gone back behind it, and of the
  // checkpoint that was begun since; -1 for none.
  int64_t saved_step_ = -1, begun_step_ = -1;
  bool postponed_ = false;  // a checkpoint was due while steps were skipped
  bool best_due_ = false;
  std::optional<double> saved_best_loss_ = {};  // of RUN/best
  int64_t saved_best_step_ = 0;
  double longest_save_ = 0;
  CheckpointWriter writer_;  // last: its destructor reads the other members
};

}  // namespace folio
