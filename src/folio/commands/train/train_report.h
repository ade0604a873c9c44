#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "folio/cli/command.h"
#include "folio/infer/generator.h"
#include "folio/run/preview.h"
#include "folio/run/run_config.h"
#include "folio/term/progress.h"
#include "folio/term/rate.h"
#include "folio/text/tokenizer.h"
#include "folio/train/tensorboard.h"
#include "folio/train/trainer.h"

namespace folio {

// Tells what a training run does: the progress line, a note for each evaluation and sample, and
// with --json an event a line on stdout. Also keeps RUN/samples.jsonl and RUN/tensorboard/.
class TrainReport {
 public:
  // `tokenizer` may be null: then there are no samples. All must outlive the report.
  TrainReport(const Context& context, const RunConfig& config, std::filesystem::path run,
              Backend& backend, const Tokenizer* tokenizer);

  // Hooks that call this object and stop the trainer when the user asks.
  TrainerHooks Hooks();

  // The run has trained `first_step` steps before; `preview` has probed the machine.
  void Begin(int64_t first_step, const TrainPreview& preview);
  void End(const TrainResult& result);

 private:
  void Step(const StepMetrics& metrics);
  void Evaluated(int64_t step, const Evaluation& evaluation);
  void Sample(int64_t step, const GptWeights& weights);
  void Event(const std::string& json_line);
  void Record(const StepMetrics& metrics);
  // Of the model's arithmetic at this speed, by the measured product rate.
  double ShareOfPeak(double tokens_per_second) const {
    return tokens_per_second * flops_per_token_ / product_flops_per_second_;
  }

  Console& console_;
  const RunConfig& config_;
  std::filesystem::path run_;
  Backend& backend_;
  const Tokenizer* tokenizer_;
  std::optional<TensorBoardWriter> tensorboard_;
  Progress progress_;
  RateMeter rate_;
  double flops_per_token_ = 0, product_flops_per_second_ = 0;
  double trained_tokens_ = 0, trained_seconds_ = 0;  // in this process, without evaluations
  double mean_loss_ = 0, mean_weight_ = 0;
  std::optional<double> val_loss_;
  int64_t val_step_ = 0;
};

}  // namespace folio
