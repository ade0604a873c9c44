#pragma once

#include <filesystem>

namespace folio {

// A run directory:
//   config.toml     every setting, as `folio train --config` reads it
//   data/           the tokens, if training began from text
//   tokenizer/      the vocabulary, if it was learned from that text
//   metrics.jsonl   a line for each step (train/run_log.h)
//   samples.jsonl   what the model wrote on the way
//   loss.svg        the loss curves, at the end
//   tensorboard/    event files (train/tensorboard.h), with log.tensorboard
//   base/           the model that training of adapters began with
//   last/, best/    checkpoints (train/trainer.h)
inline constexpr char kRunConfigFile[] = "config.toml";
inline constexpr char kRunDataDir[] = "data";
inline constexpr char kRunTokenizerDir[] = "tokenizer";
inline constexpr char kRunSourceFile[] = "data.path";  // where the tokens are, if not in data/
inline constexpr char kSamplesFile[] = "samples.jsonl";
inline constexpr char kLossFigureFile[] = "loss.svg";
inline constexpr char kTensorBoardDir[] = "tensorboard";

// The directory of a run that has not begun yet. What is put there before training begins is
// removed again if it never does, and a run that was to be replaced is then back.
class NewRun {
 public:
  // Makes the directory. One that holds a run already is a kUsage Error, unless `overwrite`.
  NewRun(std::filesystem::path run, bool overwrite);
  ~NewRun();
  NewRun(const NewRun&) = delete;

  // Training begins: from here on the directory stays, and a run that was replaced is gone.
  void Begun();

 private:
  std::filesystem::path run_;
  std::filesystem::path replaced_;  // where the old run waits, or empty
  bool made_ = false;               // the directory was not there before
  bool begun_ = false;
};

// Draws RUN/loss.svg from RUN/metrics.jsonl.
void DrawLossFigure(const std::filesystem::path& run);

}  // namespace folio
