#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "folio/run/run_config.h"
#include "folio/train/run_log.h"

namespace folio {

class TrainPreview;
struct PreparedRun;

// The callbacks of a run while it trains; any of them may be empty. On ranks other than the first
// only on_step, on_evaluation and the requests are called.
struct RunHooks {
  // The run begins, or continues, with this step; its preview has an estimate of the time now.
  std::function<void(int64_t step)> on_begin = {};
  std::function<void(const StepMetrics&)> on_step = {};  // after each step
  // `done` of `total` batches of an evaluation.
  std::function<void(int64_t done, int64_t total)> on_evaluation_progress = {};
  std::function<void(int64_t step, const Evaluation&)> on_evaluation = {};
  std::function<void(int64_t step, const std::string& prompt, const std::string& text)> on_sample =
      {};
  std::function<void(int64_t step, const std::filesystem::path&)> on_checkpoint = {};
  // The run returned to a checkpoint: the next step is `to`.
  std::function<void(int64_t from, int64_t to, const std::string& why)> on_rollback = {};
  std::function<bool()> stop_requested = {};  // called after each step
  // Called between the operations of a step, of one rank alone: true drops the step and stops.
  std::function<bool()> abandon_requested = {};
};

// A training run from its settings to its last checkpoint: gathers the settings, prepares the data
// from text, gives the model the data's vocabulary, trains, and writes the run directory.
class TrainingRun {
 public:
  // Restores the directory if anything fails before Train begins. Sets the number of threads to
  // train.threads, if that is not 0. `settings` must outlive the run. Throws a kUsage Error if
  // settings or options do not fit, or if another process trains in the directory, which is locked
  // until the run is destroyed; a kInput Error for invalid data, and a kResource Error if memory
  // does not suffice. Data that was changed after it was prepared is a kInput Error, here or, if it
  // is large, of Train.
  TrainingRun(RunSettings& settings, TrainingRunOptions options);
  TrainingRun(const TrainingRun&) = delete;
  ~TrainingRun();

  // The size and memory of the run. Plan and Train measure its estimate of the time.
  const TrainPreview& preview() const;  // run/preview.h
  // Returns true if the tokenizer of the data is known, so that the model can write texts.
  bool has_tokenizer() const;

  // The preview with its estimate, for people or as a line of JSON; with a group also a line for
  // each rank. All ranks must call it.
  std::string Plan(bool json);

  // Trains to train.max_steps, or until a signal (base/signals.h) or `hooks` ask to stop. Throws a
  // kDiverged Error as Trainer::Run does. May be called once. With a group, all ranks train, and
  // stop together.
  TrainResult Train(const RunHooks& hooks = {});

 private:
  std::unique_ptr<PreparedRun> run_;
};

}  // namespace folio
