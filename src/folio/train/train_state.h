#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "folio/base/rng.h"
#include "folio/dist/shards.h"
#include "folio/model/params.h"
#include "folio/train/evaluate.h"
#include "folio/train/health.h"
#include "folio/train/optimizer.h"

namespace folio {

inline constexpr char kTrainStateDir[] = "train_state";

// The state that a run needs beside the model to go on as if it had never stopped. Without a budget
// it says nothing of time, and never of threads, so that equal runs have equal bytes.
struct TrainState {
  int64_t step = 0;  // steps done, made or skipped
  int64_t tokens = 0;
  std::optional<Evaluation> evaluation = {};  // that of `step`, if it is done
  std::optional<double> best_val_loss = {};
  int64_t best_step = 0;
  // Evaluations in a row, before `step`; 0 in runs without train.patience.
  int64_t evaluations_without_better = 0;
  int64_t seed = 0;
  StepHealth health = {};
  int64_t rollbacks = 0, data_skipped = 0;  // how often the run went back; batches left out so
  // With train.budget: the steps of the run as the clock has corrected them, and how much of the
  // time is gone. Only then do the bytes of a run depend on a clock.
  struct Budget {
    int64_t steps = 0;
    double seconds = 0;
  };
  std::optional<Budget> budget = {};
  // With PyTorch's numbers: the generator now, and before it drew the batch of `step`.
  std::optional<TorchRng::State> torch = {}, torch_before_batch = {};

  // The step whose batch `step` has, as the sampler counts.
  uint64_t data_step() const { return static_cast<uint64_t>(step + data_skipped); }
};

// Writes dir/train_state/state.json and optimizer.safetensors (optimizer_file.h), the optimizer's
// state; `written` is that file where it is there already, and is moved to its place.
void SaveTrainState(const std::filesystem::path& dir, const TrainState& state,
                    const ParamTable& table, std::span<const NamedTensor> optimizer,
                    const std::filesystem::path& written = {});

// Updates done by the run that left the state in `dir`, and the seconds of its budget that were
// gone by then. Both throw as LoadTrainState does.
int64_t SavedStep(const std::filesystem::path& dir);
double SavedBudgetSeconds(const std::filesystem::path& dir);

// Reads both back, the second as ReadOptimizerFile does. Throws a kInput Error if they are missing
// or do not belong to the model.
TrainState LoadTrainState(const std::filesystem::path& dir, const ParamTable& table,
                          const Optimizer& optimizer, const Shards* shards = nullptr, int rank = 0);

}  // namespace folio
