#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "folio/run/preview.h"
#include "folio/run/run_config.h"
#include "folio/term/progress.h"
#include "folio/train/trainer.h"

namespace folio {

// Tells what a training run does: the plan, the progress line, a note for each evaluation and
// sample, and with --json an event a line as the result.
class TrainReport {
 public:
  // All must outlive the report. `has_tokenizer` says whether the run's checkpoints will have one.
  TrainReport(Console& console, ProgressMode mode, const RunConfig& config,
              std::filesystem::path run, const TrainPreview& preview, bool has_tokenizer);

  // The run has trained `first_step` steps before; the preview has probed the machine.
  void Begin(int64_t first_step);
  // A run that was to go on has all its steps behind it.
  void NothingToDo(int64_t step);
  void Step(const StepMetrics& metrics);
  void Evaluating(int64_t done, int64_t total);
  void RolledBack(int64_t from, int64_t to, const std::string& why);
  void Evaluated(int64_t step, const Evaluation& evaluation);
  void Saved(int64_t step, const std::filesystem::path& path);
  void Sampled(int64_t step, const std::string& prompt, const std::string& text);
  void End(const TrainResult& result);

 private:
  void Skipped(const StepMetrics& metrics);
  void Event(const std::string& json_line);
  std::string WhyEnded(const TrainResult& result) const;
  std::string NextCommand(const TrainResult& result) const;

  Console& console_;
  const RunConfig& config_;
  std::filesystem::path run_;
  const TrainPreview& preview_;
  bool has_tokenizer_;
  Progress progress_;
  RateMeter rate_;
  double trained_tokens_ = 0, trained_seconds_ = 0;  // in this process, without evaluations
  double mean_loss_ = 0, mean_weight_ = 0;
  std::optional<double> val_loss_;
  int64_t val_step_ = 0;
};

}  // namespace folio
