#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "folio/io/guarded_directory.h"
#include "folio/model/params.h"
#include "folio/text/tokenizer.h"
#include "folio/train/train_state.h"

namespace folio {

// Earlier checkpoints of a run are kept here, each in a directory named by its step.
inline constexpr char kStepsDir[] = "steps";
// Several ranks write the state of the optimizer (train_state.h) to this file in the directory
// of the run.
inline constexpr char kMomentsFile[] = ".moments";

// The contents of a checkpoint. Nothing of them may change while it is written.
struct CheckpointParts {
  const GptWeights& weights;               // as they are trained
  const GptWeights* merged;                // with the adapters in it; null for a model without such
  std::span<const NamedTensor> optimizer;  // its state, of the whole model
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
    int64_t keep_last = 1;                 // of the newest so many; 1: RUN/last alone
    int64_t keep_every = 0;                // and those of multiples of so many steps; 0: none
    std::string base = {};                 // the model that adapters are for, as they name it
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
  // Returns whether keep_every keeps the checkpoint of this step.
  bool OfRoundStep(int64_t step) const;
  // Removes what is in RUN/steps of later steps: the run went back to this one.
  void Forget(int64_t step) const { Prune(step + 1); }

 private:
  void WriteBoth(const CheckpointParts& parts, bool best, bool last, int64_t previous) const;
  void SaveModelInto(const std::filesystem::path& dir, const CheckpointParts& parts) const;
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

}  // namespace folio
