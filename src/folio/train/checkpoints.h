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

// Writes a model directory into one that is there: `merged` and, in adapter/, the adapters of
// `weights` (those of the model in `base`), or `weights` where `merged` is null; and the tokenizer,
// unless it is null.
void SaveTrainedModel(const std::filesystem::path& dir, const GptWeights& weights,
                      const GptWeights* merged, const Tokenizer* tokenizer,
                      const std::string& base = {});

// The contents of a checkpoint. Nothing of them may change while it is written.
struct CheckpointParts {
  const GptWeights& weights;              // as they are trained
  const GptWeights* merged;               // with the adapters in it; null for a model without such
  std::span<const StateArray> optimizer;  // its state, of the whole model
  const TrainState& state;
  std::filesystem::path written = {};  // the file of the optimizer's state, if it is there already
};

// The checkpoints of a run: RUN/best has the model alone, RUN/last what is needed to go on too, and
// RUN/steps/STEP is what RUN/last was then. Each is whole or not there: it is written aside with
// its checksums (io/checksums.h), flushed and put in its place; only then those that are not to be
// kept go.
class Checkpoints {
 public:
  struct Options {
    int64_t keep_last = 1;                 // the number of newest ones; 1: RUN/last alone
    int64_t keep_every = 0;                // and those of multiples of so many steps; 0: none
    BaseModel base = {};                   // the model that adapters are for, as they name it
    bool adapters = false;                 // nothing but adapters is written (train.save)
    const Tokenizer* tokenizer = nullptr;  // goes into each of them; may be null
  };

  Checkpoints(std::filesystem::path run, Options options);

  // Writes RUN/base, the model that adapters are trained for. Throws as Write does.
  void WriteBase(const GptWeights& weights) const;
  // Writes RUN/best, RUN/last or both. `previous` is the step of the sound checkpoint that RUN/last
  // is, -1 if it is none. Throws a kRuntime Error where it cannot write; RUN/last is then as it
  // was.
  void Write(const CheckpointParts& parts, bool best, bool last, int64_t previous) const;
  // Returns whether RUN/best was removed from a run that is there otherwise.
  bool LostBest() const;
  // Returns whether RUN/best, the model of `step`, is sound now: where it is missing or damaged, it
  // is made again of a sound checkpoint of that step. Warns of what it finds.
  bool RepairBest(int64_t step) const;
  const std::filesystem::path& run() const { return run_; }
  bool adapters() const { return options_.adapters; }
  // Returns whether keep_every keeps the checkpoint of this step.
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

// The checkpoints that a run can go on from, newest first: RUN/last, and those of RUN/steps.
std::vector<std::filesystem::path> FindCheckpoints(const std::filesystem::path& run);

// The newest of them, of a step before `end`, that is sound: its files are there and as their
// checksums say. Warns of those that are not. Throws a kInput Error if there is none, that of the
// newest if all are damaged.
std::filesystem::path SoundCheckpoint(const std::filesystem::path& run,
                                      int64_t end = std::numeric_limits<int64_t>::max());

// The ranks that write a checkpoint together.
struct CheckpointRanks {
  Group* group = nullptr;  // null for one rank alone
  bool same_files = true;  // all ranks see them, as far as is known
};

// Writes checkpoints while training goes on: takes a copy of what training changes and has a
// thread write it, one at a time. Where memory has no room for a copy, training waits instead.
//
// Each of several ranks writes its pieces of the optimizer's state, all into one file
// (train_state.h), and then the first the rest; where they do not see the same files, or have
// shards of the model, it gathers what all have. All ranks call the same functions in the same
// order and get the same results.
class CheckpointWriter {
 public:
  // The outcome of a checkpoint.
  struct Written {
    int64_t step = 0;
    bool best = false, last = false;
    double seconds = 0;             // from its beginning to here
    std::exception_ptr error = {};  // null: it is there
  };

  // All must outlive it. Without `beside` no copies are taken, for measurements and tests.
  CheckpointWriter(Checkpoints checkpoints, const GptWeights& weights, const Optimizer& optimizer,
                   const CheckpointRanks& ranks = {}, bool beside = true);
  // The bytes of the copy that it takes of a model and its optimizer, or of a shard of them.
  static uint64_t BytesOfCopy(const ParamTable& table, const OptimizerSettings& optimizer,
                              Dtype dtype = Dtype::kF32);
  // Returns whether it takes one where so much memory is available; else training waits.
  static bool HasRoomForCopy(uint64_t bytes, uint64_t available);

  // Waits for the thread.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;

  // Begins to write RUN/best, RUN/last or both (Checkpoints::Write). REQUIRES: not busy.
  void Begin(const TrainState& state, bool best, bool last, int64_t previous);
  bool busy() const { return under_way_.has_value(); }
  // Returns whether this rank still writes its pieces of the checkpoint that was begun. As soon as
  // no rank does, all call FinishPieces.
  bool writes_pieces() const;
  void FinishPieces();
  // Returns whether this rank knows that the checkpoint that was begun is written, so that nobody
  // waits for it.
  bool done() const;
  // The outcome of the checkpoint that was begun, when it is done; nothing if none was.
  std::optional<Written> Wait();

  const Checkpoints& checkpoints() const { return checkpoints_; }

 private:
  struct Copy;

  bool first() const { return ranks_.group == nullptr || ranks_.group->first(); }
  bool MakeRoom();
  bool BeginPieces();
  void GatherState();
  void GatherWholeModel(bool state);

  Checkpoints checkpoints_;
  const GptWeights& weights_;
  const Optimizer& optimizer_;
  CheckpointRanks ranks_;
  bool beside_;
  std::exception_ptr failed_;  // the one that was begun, before its thread
  std::unique_ptr<Copy> copy_;
  std::optional<SharedOptimizerFile> file_;
  std::vector<std::vector<float>> own_state_;  // copies of this rank's pieces
  std::function<void()> rest_;  // the part that the first rank writes when all pieces are there
  std::optional<Written> under_way_;
  double began_ = 0;
  // Last: their end waits for the threads, which read the others.
  std::future<void> pieces_, written_;
};

// The policy of saving a run, and what is known of the checkpoints that it has: which is due, which
// was begun, which is written. The ranks of a group call the same functions in the same order.
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
  // best. Where `is_there` returns true, RUN/best is not looked at.
  void RepairBest(TrainState& state, const std::function<bool()>& is_there);

 private:
  void Finish(TrainState& state, const std::optional<CheckpointWriter::Written>& written);

  const TrainConfig& config_;
  Group* group_;
  OnSaved on_saved_;
  std::function<double()> clock_;  // of the run, in seconds
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
