#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/data/dataset.h"
#include "folio/io/file.h"
#include "folio/io/guarded_directory.h"
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
  // are dropped. `tokenizer` may be null: then there are no samples. All but `data` must outlive
  // the recorder.
  RunRecorder(const RunConfig& config, std::filesystem::path run, Backend& backend,
              const Tokenizer* tokenizer, const Dataset& data, int64_t first_step);

  // Records a step, as metrics.jsonl has it.
  void Record(const StepMetrics& metrics);
  // Writes a sample and returns its text, without the prompt. On conversations it is an answer: to
  // log.sample_prompt, or to the first held-out question.
  std::string Sample(int64_t step, const GptWeights& weights);
  // The text that samples go on from, as people read it.
  const std::string& prompt() const { return prompt_; }
  // Throws a kRuntime Error if samples wait for room on the disk in vain.
  void End(const TrainResult& result);

 private:
  template <class F>
  void ToTensorBoard(const F& write);
  void MakePrompt(const Dataset& data);
  static void RecordInto(TensorBoardWriter& events, const StepMetrics& metrics);

  const RunConfig& config_;
  std::filesystem::path run_;
  GuardedDirectory inside_;
  Backend& backend_;
  const Tokenizer* tokenizer_;
  std::string prompt_;
  std::vector<int32_t> prompt_ids_;
  std::optional<TensorBoardWriter> tensorboard_;
  std::unique_ptr<LineFile> samples_;  // from the first one on
};

}  // namespace folio
