#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "folio/base/rng.h"
#include "folio/io/safetensors.h"
#include "folio/model/params.h"
#include "folio/train/health.h"
#include "folio/train/optimizer.h"
#include "folio/train/run_log.h"

namespace folio {

inline constexpr char kTrainStateDir[] = "train_state";

// The state that a run needs besides the model to continue as if it had never stopped. It does not
// depend on the number of threads, nor on time unless there is a budget: equal runs have equal
// bytes.
struct TrainState {
  int64_t step = 0;  // steps done, including skipped ones
  int64_t tokens = 0;
  std::optional<Evaluation> evaluation = {};  // of `step`, if it was evaluated
  std::optional<double> best_val_loss = {};
  int64_t best_step = 0;
  // Evaluations in a row, before `step`; 0 in runs without train.patience.
  int64_t evaluations_without_better = 0;
  int64_t seed = 0;
  StepHealth health = {};
  int64_t rollbacks = 0, data_skipped = 0;  // returns to a checkpoint; batches skipped by them
  // With train.budget: the steps of the run as corrected by the clock, and the seconds that have
  // passed. Only then do the bytes of a run depend on a clock.
  struct Budget {
    int64_t steps = 0;
    double seconds = 0;
  };
  std::optional<Budget> budget = {};
  // With PyTorch's random numbers: the generator now, and before it drew the batch of `step`.
  std::optional<TorchRng::State> torch = {}, torch_before_batch = {};

  // Counts the evaluation of `step`, which is not 0; returns true if it is the best so far.
  bool CountEvaluation(double val_loss, bool patience) {
    const bool best = !best_val_loss || val_loss < *best_val_loss;
    if (best) {
      best_val_loss = val_loss;
      best_step = step;
    }
    if (best || patience) evaluations_without_better = best ? 0 : evaluations_without_better + 1;
    return best;
  }
  // The sampler's number for the batch of `step`.
  uint64_t data_step() const { return static_cast<uint64_t>(step + data_skipped); }
};

// Writes dir/train_state/state.json and optimizer.safetensors: for each trained parameter P and
// each array A of the optimizer's state that covers it a tensor "A.P" of P's shape. `optimizer` has
// the arrays, of one rank alone; if that file exists already, `written` is its path, from which it
// is moved. Throws as WriteSafetensors does.
void SaveTrainState(const std::filesystem::path& dir, const TrainState& state,
                    const ParamTable& table, std::span<const StateArray> optimizer,
                    const std::filesystem::path& written = {});

// The steps of the state in `dir`, and the seconds of its budget that had passed. Both throw as
// LoadTrainState does.
int64_t SavedStep(const std::filesystem::path& dir);
double SavedBudgetSeconds(const std::filesystem::path& dir);

// Reads both files; of the optimizer's state the pieces that this rank owns, for the model of
// `table` or its shard. Throws a kInput Error if they are missing or do not belong to the model.
TrainState LoadTrainState(const std::filesystem::path& dir, const ParamTable& table,
                          const Optimizer& optimizer);

// An optimizer file of which all ranks write their pieces at the same time, in one file system; the
// first rank then moves it to its place.
class SharedOptimizerFile {
 public:
  SharedOptimizerFile(std::filesystem::path path, const GptWeights& weights,
                      const Optimizer& optimizer);

  const std::filesystem::path& path() const { return path_; }
  // Makes the file as long as it will be, with its header. The first rank calls it. Throws a
  // kRuntime Error if it cannot.
  void Create() const;
  // Returns true if this rank can write the file that the first rank has created.
  bool IsHere() const;
  // Writes the pieces of a rank and flushes them. Throws a kRuntime Error if it cannot.
  void Write(int rank, std::span<const StateArray> state) const;

 private:
  std::filesystem::path path_;
  const ParamTable& table_;
  SafetensorsLayout layout_;
};

}  // namespace folio
