#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "folio/run/run_config.h"
#include "folio/run/training_run.h"
#include "folio/term/console.h"

namespace folio {

class Json;

// Shows a training run on the console: its plan, the progress line, a note for each evaluation and
// sample, and with --json an event a line as the result.
class TrainScreen {
 public:
  // `settings` are those of the run, which trains in `dir`. All must outlive the object.
  TrainScreen(const TrainingRun& run, const RunSettings& settings, std::filesystem::path dir,
              Console& console, ProgressMode mode);

  // The hooks for TrainingRun::Train, which this must outlive.
  RunHooks Hooks();
  // Shows the result of Train.
  void End(const TrainResult& result);

 private:
  void Begin(int64_t first_step);
  void NothingToDo(int64_t step);
  void Step(const StepMetrics& m);
  void Skipped(const StepMetrics& m);
  void Evaluating(int64_t done, int64_t total);
  void Evaluated(int64_t step, const Evaluation& evaluation);
  void Saved(int64_t step, const std::filesystem::path& path);
  void Sampled(int64_t step, const std::string& prompt, const std::string& text);
  void RolledBack(int64_t from, int64_t to, const std::string& why);
  // Prints the event as a line of the result, with --json alone.
  void Event(const Json& event);
  Json DoneEvent(const TrainResult& result) const;
  std::string DoneText(const TrainResult& result) const;
  std::string WhyEnded(const TrainResult& result) const;
  std::string NextCommand(const TrainResult& result) const;

  const TrainingRun& run_;
  const RunSettings& settings_;
  std::filesystem::path dir_;
  Console& console_;
  Progress progress_;
  bool begun_ = false;
  RateMeter rate_;
  double trained_tokens_ = 0, trained_seconds_ = 0;  // in this process, without evaluations
  double mean_loss_ = 0, mean_weight_ = 0;
  std::optional<double> val_loss_;
  int64_t val_step_ = 0;
};

}  // namespace folio
