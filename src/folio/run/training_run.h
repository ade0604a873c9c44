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

// The callbacks of a run while it trains; any of them may be empty. On ranks beside the first only
// on_step, on_evaluation and the requests are called.
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

// A training run from its settings to its last checkpoint: gathers the settings, makes the data
// from text, gives the model the data's vocabulary, trains, and keeps everything that a run
// directory holds.
class TrainingRun {
 public:
  // Until Train begins, the directory is put back as it was if anything fails. Sets the number of
  // threads to train.threads, if that is not 0. `settings` must outlive the run.
  // Throws a kUsage Error where settings or options do not fit, a kInput Error for the data, a
  // kResource Error where memory does not suffice. The run directory is its own until it is gone: a
  // kUsage Error if another process trains there. Data that is not what was prepared is a kInput
  // Error, here or, where it is large, of Train.
  TrainingRun(RunSettings& settings, TrainingRunOptions options);
  TrainingRun(const TrainingRun&) = delete;
  ~TrainingRun();

  // The size of the run and the memory that it takes. Its estimate of the time is measured by Plan
  // and Train.
  const TrainPreview& preview() const;  // run/preview.h
  // Returns whether the tokenizer of the data is known, with which the model writes texts.
  bool has_tokenizer() const;

  // The preview with its estimate, for people or as a line of JSON; with a group also a line for
  // each rank. All ranks must call it.
  std::string Plan(bool json);

  // Trains to train.max_steps, or until a signal (base/signals.h) or `hooks` ask to stop. Throws a
  // kDiverged Error as Trainer::Run does. Once. With a group, all ranks train, and stop together.
  TrainResult Train(const RunHooks& hooks = {});

 private:
  std::unique_ptr<PreparedRun> run_;
};

}  // namespace folio
