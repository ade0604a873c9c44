#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "folio/backend/backend.h"
#include "folio/io/line_file.h"
#include "folio/run/run_config.h"
#include "folio/text/tokenizer.h"
#include "folio/train/tensorboard.h"
#include "folio/train/trainer.h"

namespace folio {

// Keeps what a run directory holds beside the trainer's own files: samples.jsonl, and tensorboard/
// with log.tensorboard.
class RunRecorder {
 public:
  // The run has trained `first_step` steps before: samples of later ones, which will come again,
  // are dropped. `tokenizer` may be null: then there are no samples. All must outlive the recorder.
  RunRecorder(const RunConfig& config, std::filesystem::path run, Backend& backend,
              const Tokenizer* tokenizer, int64_t first_step);

  // As metrics.jsonl has it.
  void Record(const StepMetrics& metrics);
  // Writes a sample and returns its text, without the prompt.
  std::string Sample(int64_t step, const GptWeights& weights);
  // Throws a kRuntime Error if samples wait for room on the disk in vain.
  void End(const TrainResult& result);

 private:
  template <class F>
  void ToTensorBoard(const F& write);
  static void RecordInto(TensorBoardWriter& events, const StepMetrics& metrics);

  const RunConfig& config_;
  std::filesystem::path run_;
  Backend& backend_;
  const Tokenizer* tokenizer_;
  std::optional<TensorBoardWriter> tensorboard_;
  std::unique_ptr<LineFile> samples_;  // from the first one on
};

}  // namespace folio
